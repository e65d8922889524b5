"""A client whose recordings are JSON files: what each decoder hears in them."""

import asyncio
import json
from pathlib import Path
from typing import Any, ClassVar

from conch.wire.errors import AudioError, OptionError
from conch.wire.result import Hypothesis, Segment, Transcript


class TwoRecognisers:
    """An `AsyncClient` that answers with the text of a decoder; see `recording`."""

    asked: ClassVar[list[tuple[str, str]]] = []
    """Decoder and name of each request."""
    in_flight: ClassVar[int] = 0
    most_in_flight: ClassVar[int] = 0

    def __init__(self, url: str, **settings: Any) -> None:
        self.url = url

    async def transcribe(self, audio: bytes, *, timeout_s: float, **options: Any) -> Transcript:
        data = json.loads(audio)
        decoder = options.get("decoder", "attention")
        TwoRecognisers.asked.append((decoder, data["name"]))
        TwoRecognisers.in_flight += 1
        TwoRecognisers.most_in_flight = max(self.most_in_flight, self.in_flight)
        await asyncio.sleep(0)
        TwoRecognisers.in_flight -= 1
        heard = data[decoder]
        if heard == "never":
            await asyncio.Event().wait()
        if heard == "broken":
            raise AudioError("AUDIO is no audio")
        if heard == "refused":
            raise OptionError("option 'language' takes en")
        segments = tuple(
            Segment(start, end, (Hypothesis(text, 0.0, 0.0),)) for start, end, text in heard
        )
        text = " ".join(segment.text for segment in segments)
        told = data.get("language", "")
        nbest = (Hypothesis(text, 0.0, 0.0),)
        return Transcript(nbest, segments, data["seconds"], (), {}, language=told)

    async def close(self) -> None:
        pass


def recording(
    path: Path, a: object, b: object, *, seconds: float = 2.0, language: str = ""
) -> Path:
    """Write a file in which attention hears `a` and wfst `b`.

    Args:
        path: Of the file.
        a: A text; or segments, each start, end and text; or `broken`, `refused` or `never`.
        b: The same.
        seconds: Length of the recording.
        language: What the answers tell.
    """

    def heard(what: object) -> object:
        if what in ("broken", "refused", "never") or not isinstance(what, str):
            return what
        return [[0.0, seconds, what]] if what else []

    data = {"name": path.stem, "attention": heard(a), "wfst": heard(b)}
    path.write_text(json.dumps({**data, "seconds": seconds, "language": language}))
    return path
