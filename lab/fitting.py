"""Fit voices to the speakers of a manifest, and compare them with recordings that were held back.

python -m lab.fitting speech/manifest.tsv --split dev --speakers 84,777 --minutes 2

The manifest has a column `speaker`. Two networks that no voice is fitted by judge too, if their
packages are there: how alike the voices are, and how a listener likes them.

pip install --no-deps resemblyzer webrtcvad-wheels   # and librosa; Apache-2.0; Wan et al. 2018
pip install distillmos              # MIT, 16 MB, and torchaudio; Stahl & Gamper 2025
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import soundfile
import soxr

from conch.cli.server import server_that_fits
from conch.client import Client
from conch.component import SAMPLE_RATE, FloatArray, unit
from conch.fitted_voices import FittedVoice
from conch.scoring import missing
from conch.scoring.error_rates import number, table
from lab.arguments import script_parser
from lab.waveforms import rows_of

FILES = 16
"""Recordings of a speaker that a voice is fitted to, and as many that are held back."""
LEAST_S, MOST_S = 3.0, 20.0
RATE = 24_000
SENTENCES = (
    "The source of the huge river is the clear spring.",
    "Kick the ball straight and follow through.",
    "Help the woman get back to her feet.",
    "A pot of tea helps to pass the evening.",
    "Smoky fires lack flame and heat.",
)
"""Harvard sentences that no voice is fitted or judged with on the way."""
POLL_S = 2.0

Sound = Callable[[FloatArray], FloatArray]
"""Returns how a waveform at 16 kHz sounds, a unit vector."""
Opinion = Callable[[Sequence[FloatArray]], float]
"""Predicts the mean opinion score of waveforms at 16 kHz, 1 to 5."""


def other_network() -> Sound | None:
    if missing("resemblyzer", "webrtcvad", "librosa"):
        return None
    from resemblyzer import VoiceEncoder
    from resemblyzer.audio import normalize_volume

    encoder = VoiceEncoder("cpu", verbose=False)
    return lambda waveform: encoder.embed_utterance(normalize_volume(waveform, -30))


def opinion_scores() -> Opinion | None:
    if missing("distillmos"):
        return None
    import torch
    from distillmos import ConvTransformerSQAModel

    network = ConvTransformerSQAModel().eval()

    @torch.no_grad()
    def score(waveforms: Sequence[FloatArray]) -> float:
        return float(np.mean([network(torch.tensor(item)[None]).item() for item in waveforms]))

    return score


def files_of(manifest: Path, split: str, speaker: str) -> list[Path]:
    return [
        manifest.parent / row["path"]
        for row in rows_of(manifest, ("path", "split", "speaker", "duration"))
        if (row["split"], row["speaker"]) == (split, speaker)
        and LEAST_S <= float(row["duration"]) <= MOST_S
    ]


def spoken(client: Client, voice: str) -> list[FloatArray]:
    """Return the sentences by a voice, at 16 kHz."""
    return [
        soxr.resample(client.synthesize(text, voice=voice).waveform, RATE, SAMPLE_RATE)
        for text in SENTENCES
    ]


def likeness(sound_of: Sound, waveforms: Sequence[FloatArray], person: FloatArray) -> float:
    return float(np.mean([sound_of(waveform) @ person for waveform in waveforms]))


def fitted(client: Client, name: str, files: Sequence[Path], minutes: int) -> FittedVoice:
    """Return a voice once its work is over; print its curve as it grows."""
    client.fit_voice(name, files, minutes=minutes)
    points = 0
    while (voice := client.fitted_voice(name)).is_in_work:
        for step, similarity in voice.curve[points:]:
            print(f"{name}: {similarity:.3f} after {step} steps, {voice.seconds:.0f} s", flush=True)
        points = len(voice.curve)
        time.sleep(POLL_S)
    return voice


def main() -> None:
    parser = script_parser(__doc__)
    parser.add_argument("manifest", type=Path)
    parser.add_argument("--split", default="dev")
    parser.add_argument("--speakers", required=True, help="speakers, with commas")
    parser.add_argument("--minutes", type=int, default=10)
    args = parser.parse_args()
    sound_of, score, rows = other_network(), opinion_scores(), []
    with server_that_fits(None) as url, Client(url) as client:
        for speaker in args.speakers.split(","):
            files = files_of(args.manifest, args.split, speaker)[: 2 * FILES]
            name = f"reader {speaker}"
            voice = fitted(client, name, files[:FILES], args.minutes)
            row = [speaker, voice.mix, number(voice.start_similarity, 3)]
            row += [number(voice.similarity, 3), number(voice.wer, 1), str(voice.steps)]
            recordings = [soundfile.read(path, dtype="float32")[0] for path in files]
            compared = (spoken(client, voice.mix), spoken(client, name), recordings[:FILES])
            if sound_of:
                held_back = recordings[FILES:] or recordings[1::2]
                person = unit(np.mean([sound_of(item) for item in held_back], axis=0))
                row += [number(likeness(sound_of, item, person), 3) for item in compared]
            if score:
                row += [number(score(item), 2) for item in compared]
            client.remove_voice(name)
            rows.append(row)
            print("  ".join(row), flush=True)
    header = ["speaker", "mix", "CAM++ before", "after", "WER %", "steps"]
    header += ["other before", "after", "own"] * bool(sound_of)
    header += ["MOS before", "after", "own"] * bool(score)
    print(table(header, rows))


if __name__ == "__main__":
    main()
