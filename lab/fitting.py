"""Fit voices to the speakers of a manifest, and compare them with recordings that were held back.

python -m lab.fitting speech/manifest.tsv --split dev --speakers 84,777 --minutes 2

The manifest has a column `speaker`. Two networks that no voice is fitted by judge too, if their
packages are there: how alike the voices are, and how a listener likes them.

pip install --no-deps resemblyzer   # Apache-2.0, 17 MB; GE2E, Wan et al. 2018
pip install distillmos              # MIT, 16 MB, and torchaudio; Stahl & Gamper 2025
"""

import csv
import importlib
import importlib.util
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import librosa
import numpy as np
import soundfile
import soxr
import torch

from conch.cli.server import server_that_fits
from conch.client import Client
from conch.component import SAMPLE_RATE, FloatArray, unit
from conch.fitted_voices import FittedVoice
from conch.scoring.error_rates import number, table
from lab.arguments import script_parser

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


class OtherNetwork(torch.nn.Module):
    """The speaker encoder of Resemblyzer, from the weights of its package."""

    def __init__(self, weights: Path) -> None:
        super().__init__()
        self.lstm = torch.nn.LSTM(40, 256, 3, batch_first=True)
        self.linear = torch.nn.Linear(256, 256)
        state = torch.load(weights, map_location="cpu", weights_only=False)["model_state"]
        self.load_state_dict(state, strict=False)

    @torch.no_grad()
    def sound_of(self, waveform: FloatArray) -> FloatArray:
        """Return how a waveform at 16 kHz sounds, a unit vector `[256]`."""
        level = 10 ** (-30 / 20) / max(float(np.sqrt(np.mean(waveform**2))), 1e-9)
        mel = librosa.feature.melspectrogram(
            y=waveform * min(10.0, level), sr=SAMPLE_RATE, n_fft=400, hop_length=160, n_mels=40
        ).T.astype(np.float32)
        mel = np.pad(mel, ((0, max(0, 160 - len(mel))), (0, 0)))
        windows = np.stack([mel[at : at + 160] for at in range(0, len(mel) - 159, 80)])
        hidden = self.lstm(torch.tensor(windows))[1][0][-1]
        embeddings = unit(torch.relu(self.linear(hidden)).numpy())
        return unit(embeddings.mean(axis=0))


def other_network() -> OtherNetwork | None:
    spec = importlib.util.find_spec("resemblyzer")
    if spec is None or not spec.submodule_search_locations:
        return None
    return OtherNetwork(Path(spec.submodule_search_locations[0]) / "pretrained.pt")


def opinion_scores() -> Callable[[Sequence[FloatArray]], float] | None:
    """Return what predicts the mean opinion score of waveforms at 16 kHz, 1 to 5."""
    if importlib.util.find_spec("distillmos") is None:
        return None
    network = importlib.import_module("distillmos").ConvTransformerSQAModel().eval()

    @torch.no_grad()
    def score(waveforms: Sequence[FloatArray]) -> float:
        return float(np.mean([network(torch.tensor(item)[None]).item() for item in waveforms]))

    return score


def files_of(manifest: Path, split: str, speaker: str) -> list[Path]:
    with manifest.open(newline="") as file:
        rows = [*csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]
    return [
        manifest.parent / row["path"]
        for row in rows
        if (row["split"], row["speaker"]) == (split, speaker)
        and LEAST_S <= float(row["duration"]) <= MOST_S
    ]


def spoken(client: Client, voice: str) -> list[FloatArray]:
    """Return the sentences by a voice, at 16 kHz."""
    return [
        soxr.resample(client.synthesize(text, voice=voice).waveform, RATE, SAMPLE_RATE)
        for text in SENTENCES
    ]


def likeness(network: OtherNetwork, waveforms: Sequence[FloatArray], person: FloatArray) -> float:
    return float(np.mean([network.sound_of(waveform) @ person for waveform in waveforms]))


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
    network, score, rows = other_network(), opinion_scores(), []
    with server_that_fits(None) as url, Client(url) as client:
        for speaker in args.speakers.split(","):
            files = files_of(args.manifest, args.split, speaker)
            name = f"reader {speaker}"
            voice = fitted(client, name, files[:FILES], args.minutes)
            row = [speaker, voice.mix, number(voice.start_similarity, 3)]
            row += [number(voice.similarity, 3), number(voice.wer, 1), str(voice.steps)]
            recordings = [soundfile.read(path, dtype="float32")[0] for path in files[: 2 * FILES]]
            by_mix, by_voice = spoken(client, voice.mix), spoken(client, name)
            if network:
                sounds = [network.sound_of(waveform) for waveform in recordings]
                person = unit(np.mean(sounds[FILES:] or sounds[1::2], axis=0))
                own = float(np.mean([sound @ person for sound in sounds[:FILES]]))
                before, after = (likeness(network, item, person) for item in (by_mix, by_voice))
                row += [number(value, 3) for value in (before, after, own)]
            if score:
                row += [number(score(item), 2) for item in (by_mix, by_voice, recordings[:FILES])]
            client.remove_voice(name)
            rows.append(row)
            print("  ".join(row), flush=True)
    header = ["speaker", "mix", "CAM++ before", "after", "WER %", "steps"]
    header += ["other before", "after", "own"] * bool(network)
    print(table(header + ["MOS before", "after", "own"] * bool(score), rows))


if __name__ == "__main__":
    main()
