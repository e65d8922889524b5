"""Kaldi's nnet3 models in Vosk's folders, by the package vosk.

The library of Vosk hangs where kaldifst was imported before it. So nothing here imports
`conch.decoding.graph`.
"""

from conch.families.family import (
    ComponentInfo,
    Decoder,
    Family,
    ModelKind,
    WeightsPackage,
)
from conch.families.options import Above, Rule
from conch.families.search import DEFAULT_WHEN, live_takes_the_vad, takes_no_names

DECODER, STREAMING_DECODER = "kaldi_decoder", "kaldi_streaming_decoder"
PACKAGE = WeightsPackage("Kaldi model", "", "", "conch serve --kaldi FOLDER")

FAMILY = Family(
    name="kaldi",
    title="Kaldi",
    components=(
        ComponentInfo(name=DECODER, title="Kaldi", step="decode", package=PACKAGE),
        ComponentInfo(
            name=STREAMING_DECODER,
            title="Kaldi, live",
            step="decode",
            is_stream=True,
            package=PACKAGE,
        ),
    ),
    models=(
        ModelKind(
            name="kaldi",
            title="Kaldi",
            components=(DECODER, STREAMING_DECODER),
            form="a folder of Kaldi or Vosk with am, conf and graph",
            help="the same with an nnet3 model of Kaldi, in Vosk's folders",
            check="conch.families.kaldi.folder:check_kaldi",
        ),
    ),
    decoders=(
        Decoder(
            name="kaldi",
            components=(DECODER,),
            live=(STREAMING_DECODER,),
            recogniser="conch.families.kaldi.recogniser:KALDI",
            first_pass="conch.families.kaldi.recogniser:KaldiFirstPass",
            live_when={"decoder": "kaldi"},
            default_when=DEFAULT_WHEN,
            detects_language=True,
        ),
    ),
    rules=(
        Rule(
            {"beam_size": Above("nbest"), "decoder": "kaldi"},
            "option 'beam_size' does not go with decoder kaldi, whose beam is in the folder's "
            "conf/model.conf; sent: {beam_size}",
        ),
        *takes_no_names("kaldi", "whose words are those of its graph"),
        Rule(
            {"rescore": True, "decoder": "kaldi"},
            "option 'rescore' does not go with decoder kaldi, whose scores hold those of its own "
            "language model",
        ),
        live_takes_the_vad("kaldi"),
    ),
    warm_ups=({"decoder": "kaldi"}, {"decoder": "kaldi", "mode": "streaming"}),
)
