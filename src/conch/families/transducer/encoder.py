"""The `transducer_encoder` component: recordings to what the decoder reads."""

from dataclasses import dataclass

from conch.families.search.recordings import ExportedEncoder, RecordingEncoder
from conch.families.transducer.declaration import FRAMES
from conch.families.transducer.graphs import TransducerConfig, opened_encoder, opened_folder


@dataclass(frozen=True, slots=True, kw_only=True)
class TransducerEncoderConfig(TransducerConfig):
    """Parameters of the `transducer_encoder` component."""

    max_padding: float = 0.2
    """Largest share of padding in a row of a batch. Rows that differ more are encoded apart."""
    max_batch_s: float = 16.0
    """Largest batch in seconds of audio, with padding; a longer row is encoded alone."""


class TransducerEncoder(RecordingEncoder):
    """Turns waveforms into frames for the decoder."""

    def __init__(self, config: TransducerEncoderConfig) -> None:
        """Load the encoder.

        Raises:
            ConfigError: it cannot be loaded, or a limit of the batches is out of range.
        """
        graph = opened_encoder(opened_folder(config), config.threads)
        super().__init__(ExportedEncoder(graph), FRAMES, config.max_padding, config.max_batch_s)
