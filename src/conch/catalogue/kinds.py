"""The kinds of models of which a server can serve another than its default."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

from conch.catalogue.checks import (
    Found,
    UnfitModelError,
    check_files,
    check_folder,
    check_weights_are_here,
)
from conch.catalogue.ctc import check_ctc, networks_of_ctc
from conch.catalogue.exports import Network
from conch.catalogue.funasr import (
    check_online_paraformer,
    check_paraformer,
    check_sense_voice,
    networks_of_online_paraformer,
    networks_of_paraformer,
    networks_of_sense_voice,
)
from conch.catalogue.kaldi import check_kaldi
from conch.catalogue.known import KNOWN, KnownModel
from conch.catalogue.piper import check_piper
from conch.catalogue.transducers import check_transducer, networks_of_transducer
from conch.catalogue.wenet import check_wenet, networks_of_wenet
from conch.families.ctc import declaration as ctc
from conch.families.funasr import declaration as funasr
from conch.families.kaldi import declaration as kaldi
from conch.families.moonshine import declaration as moonshine
from conch.families.piper import declaration as piper
from conch.families.transducer import declaration as transducer
from conch.families.wenet import declaration as wenet
from conch.families.whisper import declaration as whisper


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Models that the same components load."""

    name: str
    """The flag `--NAME` chooses one."""
    title: str
    components: tuple[str, ...]
    form: str
    """What a folder of the user's must be, in words."""
    others: str
    """Where there are more of them, in words."""
    check: Callable[[Path], Found]
    """Raises an `UnfitModelError` for a folder that holds no complete model."""
    networks: Callable[[Path], tuple[Network, ...]] | None = None
    """Returns the networks that a server of ONNX models can run; None if folders have none."""

    @property
    def flag(self) -> str:
        """The flag that chooses a model."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def known(self) -> Mapping[str, KnownModel]:
        """The models that Conch knows, by name."""
        return {name: model for name, model in KNOWN.items() if model.kind == self.name}

    def known_as(self, asked: str) -> KnownModel | None:
        """Return the known model of a name, which may lack the kind in front; None for another."""
        return self.known.get(asked) or self.known.get(f"{self.name}-{asked}")


_GUIDE = "docs/guide/your-model.md says what it holds"

KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            Kind(
                name="whisper",
                title="Whisper",
                components=whisper.COMPONENTS,
                form="a folder in CTranslate2's format",
                others="conch models convert makes others",
                check=check_folder,
            ),
            Kind(
                name="moonshine",
                title="Moonshine",
                components=moonshine.COMPONENTS,
                form="a folder with the files of one",
                others="conch models lists them",
                check=partial(check_files, (moonshine.FILES, moonshine.GRAPH_FILES)),
            ),
            Kind(
                name=piper.NAME,
                title="Piper",
                components=(piper.ACOUSTIC.name, piper.VOCODER.name),
                form="a folder with NAME.onnx and NAME.onnx.json of each voice",
                others="docs/guide/speech-out.md says what it holds",
                check=check_piper,
            ),
            Kind(
                name="transducer",
                title="Transducer",
                components=(*transducer.OFFLINE, *transducer.LIVE),
                form="a folder of icefall, NeMo or sherpa-onnx",
                others=_GUIDE,
                check=check_transducer,
                networks=networks_of_transducer,
            ),
            Kind(
                name=funasr.PARAFORMER,
                title="Paraformer",
                components=(funasr.PARAFORMER,),
                form="a folder of FunASR or sherpa-onnx",
                others=_GUIDE,
                check=check_paraformer,
                networks=networks_of_paraformer,
            ),
            Kind(
                name=funasr.ONLINE,
                title="online Paraformer",
                components=(funasr.ONLINE, *funasr.LIVE),
                form="a folder of FunASR or sherpa-onnx",
                others=_GUIDE,
                check=check_online_paraformer,
                networks=networks_of_online_paraformer,
            ),
            Kind(
                name=funasr.SENSE_VOICE,
                title="SenseVoice",
                components=(funasr.SENSE_VOICE,),
                form="a folder of FunASR or sherpa-onnx",
                others=_GUIDE,
                check=check_sense_voice,
                networks=networks_of_sense_voice,
            ),
            Kind(
                name="kaldi",
                title="Kaldi",
                components=(kaldi.DECODER, kaldi.STREAMING_DECODER),
                form="a folder of Kaldi or Vosk with am, conf and graph",
                others=_GUIDE,
                check=check_kaldi,
            ),
            Kind(
                name="wenet",
                title="WeNet",
                components=(*wenet.OFFLINE, *wenet.LIVE),
                form="a folder of WeNet's own exports",
                others=_GUIDE,
                check=check_wenet,
                networks=networks_of_wenet,
            ),
            Kind(
                name="ctc",
                title="CTC",
                components=(*ctc.OFFLINE, *ctc.LIVE),
                form="a folder of icefall, sherpa-onnx, WeNet, NeMo or wav2vec2",
                others=_GUIDE,
                check=check_ctc,
                networks=networks_of_ctc,
            ),
        )
    }
)
"""By name. `conch models convert` makes models of the first one."""


def kind_of(folder: Path, *, is_verbose: bool = False) -> tuple[Kind, Found]:
    """Return the first kind of which a folder is a complete model, and what its files say.

    Raises:
        UnfitModelError: it is none; the message says what the nearest kind lacks, or each.
    """
    lacking: list[tuple[Kind, UnfitModelError]] = []
    check_weights_are_here(folder)
    for kind in KINDS.values():
        try:
            return kind, kind.check(folder)
        except UnfitModelError as error:
            lacking.append((kind, error))
    most = max(error.likeness for _, error in lacking)
    lacking.sort(key=lambda item: -item[1].likeness)
    if is_verbose:
        raise UnfitModelError("".join(f"\n  as {kind.title}, {error}" for kind, error in lacking))
    nearest = [f"as {kind.title}, {error}" for kind, error in lacking if error.likeness == most]
    said = "; ".join(nearest if most else ["it has no file of one"])
    raise UnfitModelError(f"{said}. For all kinds: conch models inspect -v {folder}", most)


def components_chosen(kinds: Iterable[str]) -> set[str]:
    """Return the components that load models of these kinds."""
    return {component for name in kinds for component in KINDS[name].components}
