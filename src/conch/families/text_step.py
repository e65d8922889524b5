"""Text steps: components from text to text, all with the same tensors."""

from conch.families.family import ComponentInfo, TensorInfo

_INPUTS = (
    TensorInfo("text", "BYTES", (1,), "the text of a segment, UTF-8, not empty"),
    TensorInfo(
        "language", "BYTES", (1,), "code of its language; absent if it is unknown", is_optional=True
    ),
)
_OUTPUTS = (
    TensorInfo(
        "text",
        "BYTES",
        (1,),
        "the new text, at most 10,000 characters; the same text if nothing is to be done or "
        "the model does not know the language",
    ),
    TensorInfo(
        "spans",
        "INT32",
        (-1, 4),
        "at most 2,000 changes: start and end in the old text, start and end in the new one, "
        "in Unicode characters",
    ),
)


def text_step(name: str, role: str, title: str) -> ComponentInfo:
    return ComponentInfo(
        name=name, role=role, title=title, step="write", inputs=_INPUTS, outputs=_OUTPUTS
    )
