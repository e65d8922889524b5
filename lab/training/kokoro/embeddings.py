"""Write how Kokoro's voices sound, and print how high they are, for the component `voice_style`.

python -m lab.training.kokoro.embeddings speech/manifest.tsv

The manifest's column `speaker` is `VOICE*1.00+OTHER` for recordings of a voice.
"""

from collections import defaultdict
from pathlib import Path

import numpy as np

from conch.component import FloatArray, Row, unit
from conch.component.parameters import NiceConfig
from conch.component.pitch import median_pitch
from conch.families.kokoro import NAMES
from conch.families.kokoro.likeness import EMBEDDINGS, LEAST_S, MOST_S, embedding_of
from conch.families.speakers.components import EmbeddingComponent
from lab.arguments import script_parser
from lab.waveforms import rows_of, waveform_of

RECORDINGS = 4
"""Of each voice."""


def main() -> None:
    parser = script_parser(__doc__)
    parser.add_argument("manifest", type=Path)
    manifest = parser.parse_args().manifest
    embedding = EmbeddingComponent(NiceConfig(nice=0))
    embeddings: defaultdict[str, list[FloatArray]] = defaultdict(list)
    pitches: defaultdict[str, list[float]] = defaultdict(list)
    for item in rows_of(manifest, ("path", "speaker", "duration")):
        voice, separator, _ = item["speaker"].partition("*1.00")
        is_fitting = LEAST_S <= float(item["duration"]) <= MOST_S and voice in NAMES
        if not separator or not is_fitting or len(embeddings[voice]) == RECORDINGS:
            continue
        waveform = waveform_of(manifest.parent / item["path"])
        embeddings[voice].append(embedding_of(embedding, Row({"waveform": waveform})))
        pitches[voice].append(median_pitch(waveform))
    for voice in NAMES:
        likeness = np.round(np.stack(embeddings[voice]) @ embeddings[voice][0], 2)
        print(voice, likeness, f"{np.median(pitches[voice]):.0f} Hz")
    mean = [unit(np.sum(embeddings[voice], axis=0)) for voice in NAMES]
    np.save(EMBEDDINGS, np.stack(mean).astype(np.float32))


if __name__ == "__main__":
    main()
