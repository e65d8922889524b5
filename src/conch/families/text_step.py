"""The tensors of a text step: a component from text to text."""

from conch.families.family import Tensor

INPUTS = (
    Tensor("text", "BYTES", (1,), "text of a segment, UTF-8, not empty"),
    Tensor(
        "language",
        "BYTES",
        (1,),
        "code of its language; absent if nobody knows it",
        is_optional=True,
    ),
)
OUTPUTS = (
    Tensor(
        "text",
        "BYTES",
        (1,),
        "the new text, at most 10,000 characters; equal to the one sent if there is nothing to do, "
        "or the language is none of the model's",
    ),
    Tensor(
        "spans",
        "INT32",
        (-1, 4),
        "each change: start and end in the text that was sent, start and end in the one returned, "
        "in Unicode characters; at most 2,000",
    ),
)
