import argparse
import asyncio
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from refusals import Refused

from conch.cli import transcribe
from conch.cli.option_flags import add_option_flags, given_options
from conch.cli.progress import Progress
from conch.client import AsyncClient
from conch.wire.errors import (
    AudioError,
    ConchError,
    DeadlineError,
    OverloadedError,
    PoisonError,
    ServerError,
    ServerLostError,
    UnreachableError,
)
from conch.wire.options import RecognitionOptions, all_options
from conch.wire.result import Hypothesis, Segment, Transcript, Word


@pytest.fixture
def no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail the test when the command wants a server."""
    monkeypatch.setattr(transcribe, "server_url", lambda *_: pytest.fail("started a server"))


def run(*arguments: object) -> int:
    parser = argparse.ArgumentParser(prog="conch")
    transcribe.add_parser(parser.add_subparsers())
    args = parser.parse_args(["transcribe", *map(str, arguments)])
    return int(args.run(args))


def parse_flags(*arguments: str) -> dict[str, object]:
    parser = argparse.ArgumentParser()
    add_option_flags(parser)
    return given_options(parser.parse_args(arguments))


def test_flags_that_are_not_given_leave_the_defaults_to_the_server() -> None:
    assert parse_flags() == {}


def test_every_kind_of_flag() -> None:
    given = parse_flags(
        "--rescore", "--no-vad", "--nbest", "3", "--lm-weight", "1", "--mode", "offline",
        "--language", "de", "--channels", "2", "--speakers",
    )  # fmt: skip
    assert given == {
        "rescore": True,
        "vad": False,
        "nbest": 3,
        "lm_weight": 1.0,
        "mode": "offline",
        "language": "de",
        "channels": "2",
        "speakers": "auto",
    }
    RecognitionOptions.parse(given)


@pytest.mark.parametrize("option", ["names", "hotwords"])
def test_phrases_of_a_file(option: str, tmp_path: Path) -> None:
    (tmp_path / "names").write_text("\ufeffConch:8\n\nNew York\n", "utf-8")
    assert parse_flags(f"--{option}", f"@{tmp_path}/names") == {option: "Conch:8\nNew York"}
    long = "Conch, " * 50 + "Triton"
    assert parse_flags(f"--{option}", long) == {option: long}


def test_help_tells_every_option_with_its_range_and_default() -> None:
    parser = argparse.ArgumentParser()
    add_option_flags(parser)
    text = " ".join(parser.format_help().split())
    for item in all_options().values():
        if item.name == "vad_state":  # for programs
            assert "--vad-state" not in text
            continue
        if item.name == "known_speakers":  # by their names
            assert "--known-speakers NAME,...|all voices of conch speakers add" in text
            continue
        assert f"--{item.name.replace('_', '-')}" in text
        assert item.metadata["help"] in text
    assert (
        "(an integer from 1 to 128; default: 1; with attention 5, with ctc or wfst 16; 10 if they "
        "are rescored; at least nbest)" in text
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "required: FILE"),
        (["a.wav", "--nbest", "0"], "option 'nbest' takes an integer from 1 to 128; sent: 0"),
        (["a.wav", "--nbest", "9", "--beam-size", "8"], "at most beam_size"),
        (["a.wav", "--mode", "fast"], "invalid choice"),
        (["a.wav", "--mode", "streaming"], "invalid choice: 'streaming' (choose from 'auto', 'o"),
        (["a.wav", "--nbest", "64"], "'nbest' takes at most 32 with decoder moonshine; sent: 64"),
        (["a.wav", "--beam-size", "x"], "--beam-size: an integer from 1 to 128; got 'x'"),
        (["a.wav", "--lm-weight", "x"], "--lm-weight: a number from 0 to 10; got 'x'"),
        (["a.wav", "-o", str(Path(__file__).parent)], "-o/--output: not a file in a folder that"),
        (["a.wav", "--url", "ftp://x"], "the scheme is one of"),
        (["--speakers", "a.wav"], "off|auto|N; got 'a.wav'; files go in front of the flag"),
        (["a.wav", "--hotwords", __file__], f"phrases, or a file of them: @{__file__}; got"),
        (["a.wav", "--hotwords", "@none"], "none cannot be read"),
        (["a.wav", "--format", "rttm", "--speakers", "off"], "'speakers' takes auto or a number"),
        (["a.wav", "--model", "x/y", "--url", "http://x"], "conch serve --model NAME=x/y serves"),
        (["a.wav", "--speaker-names", "Ann"], "as A=Ann,B=Ben: a part has no label"),
        (["a.wav", "--jobs", "0"], "a whole number from 1; got '0'"),
        (["a.wav", "--jobs", "many"], "a whole number from 1; got 'many'"),
        (["a.wav", "b.wav", "-o", "x.txt"], "--output-dir"),
        (["a.wav", "b.wav", "--format", "srt"], "srt of several files needs --output-dir"),
        (["a.wav", "-o", "no-such-folder/x.txt"], "a folder that exists: 'no-such-folder/x.txt'"),
        (["a.wav", "-o", "a.wav"], "would overwrite an input"),
        (["-", "-"], "only once"),
        (["a.wav", "--url", "localhost:1", "--whisper", "base"], "--url names one that runs"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str, no_server: None, refused: Refused) -> None:
    assert message in refused("transcribe", *arguments)


def test_two_inputs_for_one_output(tmp_path: Path, no_server: None, refused: Refused) -> None:
    said = refused("transcribe", "one/a.wav", "two/a.flac", "--output-dir", str(tmp_path))
    assert "one/a.wav and two/a.flac would both be written" in said


def test_two_recordings_of_one_name_for_scoring(no_server: None, refused: Refused) -> None:
    said = refused("transcribe", "one/a b.wav", "two/a_b.flac", "--format", "ctm")
    assert "both be called a_b in the ctm" in said
    said = refused("transcribe", "-", "stdin.wav", "--format", "stm")
    assert "both be called stdin in the stm" in said


def test_files_that_are_not_there_need_no_server(
    tmp_path: Path, no_server: None, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "missing.wav"
    assert run(missing, tmp_path) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        f"conch: {missing}: no such file\n"
        f"conch: {tmp_path}: a folder; name the files in it, as in {tmp_path}/*.wav\n"
    )


def test_its_own_server_is_asked_for_what_it_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def server_url(
        url: str | None,
        requests: list[Mapping[str, Any]],
        weights: Mapping[str, str],
        *,
        others: Collection[str],
    ) -> None:
        asked.append((url, requests, weights, set(others)))
        raise ServerError("not in this test")

    monkeypatch.setattr(transcribe, "server_url", server_url)
    path = tmp_path / "a.wav"
    path.write_bytes(b"RIFF")
    with pytest.raises(ServerError):
        run(path, "--output-dir", tmp_path, "--whisper", "base", "--rescore", "--format", "srt")
    options = {"rescore": True, "word_timestamps": True}
    assert asked == [(None, [options], {"whisper": "base"}, {"speech"})]


def test_what_is_for_scoring_has_no_headings_and_follows_each_other(tmp_path: Path) -> None:
    words = (Word("good", 0.1, 0.4, 0.5),)
    segment = Segment(0.0, 1.0, (Hypothesis("good", -1.0, -1.0),), words)
    said = Transcript(segment.nbest, (segment,), 1.0, (), {})
    job = transcribe.TranscribeJob("ctm", 2, {}, 1)
    assert job.render("x/my talk.wav", said) == "my_talk A 0.100 0.300 good 0.5000\n"
    assert job.render("-", said).startswith("stdin A ")
    assert (
        transcribe.TranscribeJob("text", 2, {}, 1)
        .render("a.wav", said)
        .startswith("==> a.wav <==\n")
    )
    beside = transcribe.TranscribeJob("stm", 2, {}, 1, output_dir=tmp_path)
    assert beside.destination("x/my talk.wav") == tmp_path / "my talk.stm"


def test_no_server_at_the_url(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(b"RIFF")
    # Port 1 of this machine is never a server.
    for url in ("127.0.0.1:1", "grpc://127.0.0.1:1"):
        assert run(path, "--url", url) == 1
        error = capsys.readouterr().err
        assert error.startswith(f"conch: {path}: cannot reach a server at ")
        assert "`conch serve`" in error


class Flaky:
    """A client whose server gives these answers, and these to the question whether it is there."""

    def __init__(
        self, *answers: Transcript | ConchError, looks: Iterable[bool | ConchError] = ()
    ) -> None:
        self.answers = list(answers)
        self.looks = list(looks)

    async def transcribe(self, audio: str) -> Transcript:
        answer = self.answers.pop(0)
        if isinstance(answer, ConchError):
            raise answer
        return answer

    async def is_ready(self, model: str) -> bool:
        look = self.looks.pop(0) if self.looks else True
        if isinstance(look, ConchError):
            raise look
        return look


def progress_of(name: str) -> Progress:
    return Progress([name], b"", can_stream=False, is_text_shown=False)


def transcription(
    client: "Flaky | Poisoned", *, is_known: bool, healed_s: float = 60.0
) -> transcribe.Transcription:
    return transcribe.Transcription(
        transcribe.TranscribeJob("text", 1, {}, 4),
        cast(AsyncClient, client),
        progress_of("a.wav"),
        is_known=is_known,
        healed_s=healed_s,
        look_s=0.0,
    )


def answered(client: Flaky, *, is_known: bool) -> Transcript:
    return asyncio.run(one(transcription(client, is_known=is_known), "a.wav"))


async def one(server: transcribe.Transcription, name: str) -> Transcript:
    return await server.answered(transcribe.Input(name, name, progress_of(name).file(name)))


NOTHING = Transcript((), (), 1.0, (), {})


@pytest.mark.parametrize(
    ("error", "is_known"), [(ServerLostError("lost"), False), (UnreachableError("gone"), True)]
)
def test_a_file_goes_again_to_a_server_that_was_lost_with_it(
    error: ServerError, is_known: bool
) -> None:
    late = (UnreachableError("gone"), DeadlineError("5 s"), OverloadedError("starts"), False, True)
    starts = ServerLostError("its process has died", had_request=False)
    client = Flaky(error, starts, NOTHING, looks=late)
    assert answered(client, is_known=is_known) is NOTHING
    assert not client.looks
    last = ServerLostError("at last", had_request=False)
    with pytest.raises(ServerLostError, match="at last"):
        answered(Flaky(error, starts, last, NOTHING), is_known=is_known)


def test_an_address_that_never_answered_is_not_waited_for() -> None:
    client = Flaky(UnreachableError("gone"), NOTHING, looks=[True])
    with pytest.raises(UnreachableError):
        answered(client, is_known=False)
    assert client.looks


async def test_a_server_that_refused_a_file_has_answered() -> None:
    client = Flaky(AudioError("no audio"), UnreachableError("gone"), NOTHING)
    server = transcription(client, is_known=False)
    with pytest.raises(AudioError):
        await one(server, "a.wav")
    assert await one(server, "b.wav") is NOTHING


async def test_a_server_that_does_not_come_back_is_not_waited_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = Flaky(UnreachableError("gone"), UnreachableError("still"), looks=[False] * 9)
    server = transcription(client, is_known=True, healed_s=0.0)
    with pytest.raises(UnreachableError, match="gone"):
        await one(server, "a.wav")
    looks = len(client.looks)
    with pytest.raises(UnreachableError, match="still"):
        await one(server, "b.wav")
    assert len(client.looks) == looks


async def test_names_of_speakers_are_in_what_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Named(Flaky):
        async def __aenter__(self) -> None:
            """Open nothing."""

        async def __aexit__(self, *_: object) -> None:
            """Close nothing."""

    segment = Segment(0.0, 1.0, (Hypothesis("Yes.", -1.0, -1.0),), speaker="A")
    client = Named(Transcript(segment.nbest, (segment,), 1.0, (), {}))
    path = tmp_path / "a.srt"
    names = {"A": "Ann", "B": "Ben"}
    job = transcribe.TranscribeJob("srt", 1, {}, 1, output=path, speaker_names=names)
    sent_to = cast(AsyncClient, client)
    server = transcribe.Transcription(job, sent_to, progress_of("a.wav"), is_known=True)
    await server.of_all(["a.wav"], b"")
    assert "\nAnn: Yes.\n" in path.read_text()
    said = capsys.readouterr().err
    assert "a.wav: warning: option 'speaker_names' names the speaker B" in said
    assert "its speakers: A; sent: 'B=Ben'" in said
    assert not job.failed


class Poisoned:
    """A client whose server dies of one file, and of whatever it has beside it."""

    def __init__(self, poison: str) -> None:
        self.poison = poison
        self.deaths = 0

    async def transcribe(self, audio: str) -> Transcript:
        deaths = self.deaths
        if audio == self.poison:
            self.deaths += 1
        else:
            await asyncio.sleep(0.01)
        if self.deaths > deaths:
            raise ServerLostError("lost")
        return NOTHING

    async def is_ready(self, model: str) -> bool:
        return True


async def test_a_file_that_a_server_dies_of_fails_alone() -> None:
    client = Poisoned("poison.wav")
    server = transcription(client, is_known=True)
    names = ("a.wav", "b.wav", "poison.wav", "c.wav")
    result = await asyncio.gather(*(one(server, name) for name in names), return_exceptions=True)
    assert [isinstance(item, PoisonError) for item in result] == [False, False, True, False]
    assert client.deaths == 2
