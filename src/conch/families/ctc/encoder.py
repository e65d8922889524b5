"""The `ctc_encoder` component: recordings to log probabilities."""

from dataclasses import dataclass

from conch.families.ctc.exported import CtcExport, opened_folder
from conch.families.ctc.onnx_model import CtcGraph
from conch.families.search.folders import RecordingsConfig
from conch.families.search.recordings import RecordingEncoder


@dataclass(frozen=True, slots=True, kw_only=True)
class CtcEncoderConfig(RecordingsConfig):
    max_batch_s: float = 8.0
    """Largest batch in seconds of audio, with padding; a longer row is encoded alone. A GPU needs
    hundreds. On a CPU each row of a model of Conch's recipe is alone."""


class CtcEncoder(RecordingEncoder):
    def __init__(self, config: CtcEncoderConfig) -> None:
        found = opened_folder(config)
        hears = CtcExport(found, config.threads) if found else CtcGraph(config, is_whole=True)
        self.vocabulary = hears.vocabulary
        super().__init__(hears, "log_probs", config.max_padding, config.max_batch_s)
