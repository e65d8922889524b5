"""Models are found by name or by path, and refused with what to do."""

import re
from functools import partial
from pathlib import Path

import pytest
from whisper_toys import whisper_toy

from conch.catalogue.checks import check_known
from conch.catalogue.models import KINDS, detect, find, folder_of, home, listed, names
from conch.cli import main
from conch.families import moonshine
from conch.families.moonshine import BASE as MOONSHINE_BASE
from conch.families.whisper import BASE, TINY_EN
from conch.wire.errors import ConfigError

find_whisper = partial(find, KINDS["whisper"])


def test_the_default_home_is_that_of_xdg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert home() == tmp_path / ".local" / "share" / "conch" / "models"


def test_the_one_that_ships(models: Path) -> None:
    assert find_whisper("tiny.en") == folder_of(TINY_EN)
    assert (find_whisper("tiny.en") / "model.bin").is_file()


def test_ones_own_by_name_and_by_path(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = whisper_toy(models / "mine"), whisper_toy(tmp_path / "here" / "other")
    assert find_whisper("mine") == mine
    assert find_whisper(str(other)) == other
    monkeypatch.chdir(other.parent)
    assert find_whisper("other") == find_whisper("./other") == other
    whisper_toy(other.parent / "mine")
    assert find_whisper("mine") == mine, "a name goes before a path"
    assert find_whisper("./mine") == other.parent / "mine"
    monkeypatch.chdir(other)
    assert find_whisper(".") == other


def test_a_known_one_that_is_not_here(models: Path) -> None:
    with pytest.raises(ConfigError) as error:
        find_whisper("base")
    assert str(error.value) == (
        "--whisper base: not on this machine; to have it: conch models get base"
    )


def test_a_known_one_that_is_broken(models: Path) -> None:
    whisper_toy(models / "base")
    with pytest.raises(ConfigError, match=r"broken: its config\.json has 2 bytes, .* get base$"):
        find_whisper("base")


def test_a_package_that_is_missing(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"tiny\.en: not on this machine; .*\.\[server\]'$"):
        find_whisper("tiny.en")
    assert not listed()[0].folder


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ("bse", "did you mean base?"),
        ("min", "did you mean mine?"),
        ("~nobody-of-this-name/x", "conch models convert makes others"),
    ],
)
def test_an_unknown_name(models: Path, asked: str, hint: str) -> None:
    whisper_toy(models / "mine")
    expected = f"tiny.en, base, mine, or a folder in CTranslate2's format; sent: '{asked}'; {hint}"
    with pytest.raises(ConfigError, match=re.escape(expected)):
        find_whisper(asked)


@pytest.mark.parametrize("asked", ["base", "moonshine-base"])
def test_a_model_that_the_server_ships_in_several_packages(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = find(KINDS["moonshine"], asked)
    assert sorted(path.name for path in found.iterdir()) == sorted(moonshine.FILES)
    check_known(found, MOONSHINE_BASE.files)
    assert find(KINDS["moonshine"], asked) == found
    assert detect("moonshine-base")[1] == found
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"^--moonshine base: not on .* get moonshine-base$"):
        find(KINDS["moonshine"], "base")


def test_a_folder_that_is_no_model_says_which(models: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        find_whisper(str(tmp_path))
    assert str(error.value).startswith(f"--whisper {tmp_path}: it lacks model.bin, config.json, ")
    half = whisper_toy(models / "half")
    (half / "model.bin").unlink()
    with pytest.raises(ConfigError, match=f"--whisper half: it lacks model.bin .{half}.$"):
        find_whisper("half")


def test_a_name_that_no_disk_takes(models: Path) -> None:
    with pytest.raises(ConfigError, match=r"^--whisper a{200}: File name too long$"):
        find_whisper("a" * 300)


def test_a_folder_that_may_not_be_read(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whisper_toy(models / "base")

    def refused(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    # Nothing is refused to root, who may run the tests.
    monkeypatch.setattr(Path, "is_file", refused)
    with pytest.raises(ConfigError, match=r"base: broken: it cannot be read: .*Permission denied"):
        find_whisper("base")
    monkeypatch.setattr(Path, "is_dir", refused)
    with pytest.raises(ConfigError, match=r"base: broken: it cannot be read: .*Permission denied"):
        find_whisper("base")
    with pytest.raises(ConfigError, match=r"^--whisper mine: Permission denied$"):
        find_whisper("mine")
    with pytest.raises(ConfigError, match=r"the folder of models cannot be read: .*Permission"):
        listed()


def test_the_list(models: Path) -> None:
    whisper_toy(models / "mine")
    (whisper_toy(models / "half") / "config.json").unlink()
    (models / ".making-mine-1").mkdir()
    for name in moonshine.GRAPH_FILES:
        (models / "small" / name).parent.mkdir(exist_ok=True)
        (models / "small" / name).write_bytes(b"1")
    small_known, base_known, tiny, base, speakers, turns, kokoro, half, mine, small = listed()
    assert [tiny.name, base.name] == names(KINDS["whisper"])[:2]
    known = [small_known.name, base_known.name]
    assert known == names(KINDS["moonshine"])[:2]
    assert (speakers.name, speakers.languages, speakers.folder) == ("speakers", 0, None)
    assert (turns.name, kokoro.name) == ("end-of-turn", "kokoro")
    assert [half.name, mine.name, small.name] == ["half", "mine", "small"]
    assert (small.wrong, small.languages, small.size) == ("", 1, len(moonshine.GRAPH_FILES))
    assert (tiny.wrong, tiny.folder) == ("", folder_of(TINY_EN))
    assert (base.folder, base.size, base.licence) == (None, BASE.size, "MIT")
    assert base.wrong == "not on this machine; to have it: conch models get base"
    assert half.wrong.startswith("broken: as Whisper, it lacks config.json. For all kinds: conch ")
    assert (half.languages, half.size) == (None, None)
    assert (mine.wrong, mine.languages, mine.folder) == ("", 1, models / "mine")


def test_a_kind_takes_its_own_models_alone(models: Path, tmp_path: Path) -> None:
    find_moonshine = partial(find, KINDS["moonshine"])
    for asked in ("tiny", "moonshine-tiny"):
        with pytest.raises(ConfigError, match=f"^--moonshine {asked}: not on .* moonshine-tiny$"):
            find_moonshine(asked)
    with pytest.raises(
        ConfigError,
        match=r"^--moonshine takes moonshine-tiny, moonshine-base, or a folder with the files of "
        r"one; sent: 'tiny\.en'; ",
    ):
        find_moonshine("tiny.en")
    with pytest.raises(
        ConfigError, match=r"^--whisper takes tiny\.en, base, or .*'moonshine-tiny'"
    ):
        find_whisper("moonshine-tiny")
    with pytest.raises(
        ConfigError, match=r"it lacks encoder_model\.ort, decoder_model_merged\.ort"
    ):
        find_moonshine(str(tmp_path))
    for name in moonshine.FILES:
        (tmp_path / name).write_bytes(b"")
    assert find_moonshine(str(tmp_path)) == tmp_path


def refused(asked: object, *, is_verbose: bool = False) -> str:
    with pytest.raises(ConfigError) as error:
        detect(str(asked), is_verbose=is_verbose)
    return str(error.value)


def test_the_nearest_kind_is_named_and_all_are_if_asked(tmp_path: Path) -> None:
    for name in ("encoder.onnx", "joiner.onnx", "tokens.txt"):
        (tmp_path / name).write_text("1")
    said = refused(tmp_path)
    assert "holds no complete model: as Transducer, it lacks decoder*.onnx; " in said
    assert "Whisper" not in said and said.endswith(f"conch models inspect -v {tmp_path}")
    first, *others = refused(tmp_path, is_verbose=True).splitlines()[1:]
    assert first.startswith("  as Transducer, it lacks decoder*.onnx")
    assert len(others) == 9


def test_a_folder_without_any_file_of_a_model(tmp_path: Path) -> None:
    assert "holds no complete model: it has no file of one." in refused(tmp_path)


def test_the_models_inside_a_folder_are_named(tmp_path: Path) -> None:
    mine = whisper_toy(tmp_path / "mine")
    whisper_toy(tmp_path / "other")
    said = refused(tmp_path)
    assert f"is no model, but the parent of some: {mine} (Whisper), {tmp_path}/other" in said


def test_a_pointer_of_git_lfs_is_no_network(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_text("version https://git-lfs.github.com/spec/v1\noid x\n")
    (tmp_path / "tokens.txt").write_text("a 0\n")
    assert refused(tmp_path).endswith(
        "its model.onnx is a pointer of Git LFS, without the "
        "weights: git lfs pull in that folder fetches them"
    )


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_text("")
    asked = tmp_path / "model.onnx"
    assert refused(asked) == f"{asked}: a file; a model is its folder, such as {tmp_path}"


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ("whisper-small", "; conch models convert openai/whisper-small makes one of a Whisper of"),
        ("some/whisper-x", "; conch models convert some/whisper-x makes one of a Whisper of"),
        ("moonshine-tny", "; did you mean moonshine-tiny?"),
        ("kokoro", "kokoro is no recogniser, and needs no flag: Kokoro-82M"),
    ],
)
def test_a_name_that_is_no_folder(models: Path, asked: str, hint: str) -> None:
    assert hint in refused(asked)


def test_a_model_of_huggingface_that_is_no_whisper_is_not_to_be_converted(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_text("1")
    (tmp_path / "config.json").write_text('{"model_type": "wav2vec2"}')
    assert "conch models convert" not in refused(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "whisper"}')
    assert f"conch models convert {tmp_path}" in refused(tmp_path)


def test_a_known_model_that_no_flag_chooses(
    models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["models", "inspect", "kokoro"]) == 0
    said = capsys.readouterr().out
    assert "not on this machine; to have it: conch models get kokoro" in said
    assert "no flag chooses it" in said
