from dataclasses import replace

import pytest

from conch.families import FAMILIES, decoders
from conch.wire.errors import OptionError
from conch.wire.nbest import fusion_weights
from conch.wire.options import RecognitionOptions, all_options, is_of_first_pass


def test_no_parameters_give_the_defaults():
    assert RecognitionOptions.parse({}) == RecognitionOptions(mode="offline", beam_size=1)


def test_numbers_become_the_type_of_their_option():
    options = RecognitionOptions.parse({"lm_weight": 1, "nbest": 3, "rescore": True})
    assert isinstance(options.lm_weight, float)
    assert (options.lm_weight, options.nbest, options.rescore) == (1.0, 3, True)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"nbst": 2}, "unknown option 'nbst'; did you mean 'nbest'?"),
        ({"colour": 2}, "unknown option 'colour'; the options are mode, "),
        ({"nbest": 0}, "option 'nbest' takes an integer from 1 to 128; sent: 0"),
        ({"nbest": 2.0}, "option 'nbest' takes an integer from 1 to 128; sent: 2.0"),
        ({"nbest": True}, "option 'nbest' takes an integer from 1 to 128; sent: True"),
        ({"nbest": 6, "beam_size": 5}, "option 'nbest' takes at most beam_size (5); sent: 6"),
        (
            {"max_segment_s": 2, "vad_pad_ms": 1000},
            "option 'max_segment_s' takes at least four times vad_pad_ms (1000 ms); sent: 2",
        ),
        ({"lm_weight": "0.5"}, "option 'lm_weight' takes a number from 0 to 10; sent: '0.5'"),
        ({"lm_weight": 10**399}, "option 'lm_weight' takes a number from 0 to 10; sent: 1000"),
        ({"nbest": -(10**399)}, "option 'nbest' takes an integer from 1 to 128; sent: -1000"),
        ({"lm_weight": float("inf")}, "option 'lm_weight' takes a number from 0 to 10; sent: inf"),
        ({"lm_weight": float("nan")}, "option 'lm_weight' takes a number from 0 to 10; sent: nan"),
        ({"rescore": 1}, "option 'rescore' takes a bool (true or false); sent: 1"),
        (
            {"mode": "fast"},
            "option 'mode' takes one of auto, offline, streaming, two_pass; sent: 'fast'",
        ),
        ({"deadline_ms": -1}, "option 'deadline_ms' takes an integer from 0 to 86400000; sent: -1"),
        ({"language": 7}, "option 'language' takes a string; sent: 7"),
        (
            {"beam_size": 33},
            "option 'beam_size' takes at most 32 with decoder moonshine; sent: 33",
        ),
        (
            {"lm_fusion": True},
            "option 'lm_fusion' goes with decoder ctc or transducer; decoder is moonshine",
        ),
        ({"hotwords": "a,,b"}, "option 'hotwords' takes phrases separated by commas"),
        ({"names": "Syme:much"}, "option 'names' takes a number after a colon; sent: 'Syme:much'"),
        ({"names": "Syme", "decoder": "kaldi"}, "option 'names' does not go with decoder kaldi"),
        ({"lattice": True}, "option 'lattice' goes with decoder wfst; decoder is moonshine"),
        (
            {"lattice": True, "decoder": "ctc"},
            "option 'lattice' goes with decoder wfst; decoder is ctc",
        ),
        (
            {"channels": "both"},
            "option 'channels' takes mix, split or an integer from 1 to 64; sent: 'both'",
        ),
        ({"channels": 0}, "option 'channels' takes mix, split or an integer from 1 to 64; sent: 0"),
        ({"channels": 65}, "option 'channels' takes mix, split or an integer from 1 to 64; sent: "),
        ({"channels": "9" * 5000}, "option 'channels' takes mix, split or an integer from 1 to "),
        ({"channels": True}, "option 'channels' takes mix, split or an integer from 1 to 64; sent"),
        ({"channels": 1.0}, "option 'channels' takes mix, split or an integer from 1 to 64; sent"),
        (
            {"decoder": "ctc", "lm_fusion": True, "rescore": True},
            "option 'rescore' is for texts that the language model has not seen yet",
        ),
        (
            {"prompt": "a" * 401, "rescore": True},
            "option 'prompt' takes at most 400 characters; sent: 401",
        ),
        (
            {"prompt": "Triton", "decoder": "wfst"},
            "option 'prompt' goes with decoder attention, or with rescore=true and rescorer",
        ),
        (
            {"lm_context": True, "rescore": True, "rescorer": "ngram"},
            "option 'lm_context' goes with rescore=true and rescorer auto or neural",
        ),
        ({"vad_state": "AAAA", "vad": False}, "option 'vad_state' is for a piece of a recording: "),
        ({"vad_state": "AAAA", "channels": 2}, "option 'vad_state' is for a piece of a recording"),
        ({"vad_state": "A" * 10_001}, "option 'vad_state' takes "),
        (
            {"mode": "streaming"},
            "option 'mode' of a request without a sequence id cannot be streaming",
        ),
    ],
)
def test_a_wrong_option_is_named_with_what_it_takes_and_what_was_sent(parameters, message):
    with pytest.raises(OptionError) as error:
        RecognitionOptions.parse(parameters)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("sent", "channels"), [("mix", "mix"), ("split", "split"), (2, 2), ("2", 2), ("64", 64)]
)
def test_channels_are_words_or_a_number(sent, channels):
    assert RecognitionOptions.parse({"channels": sent}).channels == channels


def test_a_long_value_is_not_echoed_whole():
    with pytest.raises(OptionError) as error:
        RecognitionOptions.parse({"mode": "x" * 10_000})
    assert len(str(error.value)) < 200


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("x" * 1_000_000, "unknown option 'xxx"),
        ("nbset" + " " * 1_000_000, "unknown option 'nbset "),
    ],
)
def test_nor_is_a_long_name(name, message):
    with pytest.raises(OptionError) as error:
        RecognitionOptions.parse({name: 1})
    assert str(error.value).startswith(message)
    assert len(str(error.value)) < 1200


def test_a_request_has_so_many_options_at_most():
    with pytest.raises(OptionError, match=r"^unknown option 'option0'"):
        RecognitionOptions.parse({f"option{number}": 1 for number in range(64)})
    with pytest.raises(OptionError, match=r"^a request takes at most 64 options; sent: 65$"):
        RecognitionOptions.parse({f"option{number}": 1 for number in range(65)})


def test_a_text_has_so_many_characters_at_most():
    names = ",".join(["a" * 79] * 500)
    RecognitionOptions.parse({"hotwords": names})
    with pytest.raises(OptionError, match=r"^option 'hotwords' takes at most 40000 characters"):
        RecognitionOptions.parse({"hotwords": f"{names},aa"})
    with pytest.raises(OptionError, match=r"^option 'language' takes at most 10000 characters"):
        RecognitionOptions.parse({"language": "a" * 10_001})


@pytest.mark.parametrize("decoder", ["ctc", "wfst"])
def test_whisper_scores_so_many_texts_of_a_segment_at_most(decoder):
    options = {"decoder": decoder, "attention_rescore": True}
    assert RecognitionOptions.parse({**options, "beam_size": 32}).beam_size == 32
    message = "^option 'beam_size' takes at most 32 with attention_rescore; sent: 33$"
    with pytest.raises(OptionError, match=message):
        RecognitionOptions.parse({**options, "beam_size": 33})


def test_a_segment_may_be_shorter_than_the_padding_where_there_is_none():
    with pytest.raises(OptionError, match="'max_segment_s' takes at least four times vad_pad_ms"):
        RecognitionOptions.parse({"max_segment_s": 1})
    assert RecognitionOptions.parse({"max_segment_s": 1, "vad": False}).max_segment_s == 1.0


def test_the_ctc_decoder_has_defaults_of_its_own():
    attention, ctc = RecognitionOptions.parse({}), RecognitionOptions.parse({"decoder": "ctc"})
    assert ctc.beam_size > attention.beam_size
    assert RecognitionOptions.parse({"decoder": "wfst"}).beam_size == ctc.beam_size


@pytest.mark.parametrize("decoder", ["attention", "ctc", "wfst"])
@pytest.mark.parametrize("rescorer", ["ngram", "neural", None])
@pytest.mark.parametrize("acoustic", [True, False])
def test_whatever_rescores_has_weights_and_those_that_are_sent_count(decoder, rescorer, acoustic):
    sent = {"decoder": decoder}
    if rescorer:
        sent |= {"rescore": True, "rescorer": rescorer}
    if acoustic:
        sent["ctc_rescore" if decoder == "attention" else "attention_rescore"] = True
    weights = RecognitionOptions.parse(sent).weights
    assert (weights.lm > 0) == bool(rescorer)
    assert (weights.ctc > 0) == (acoustic and decoder == "attention")
    assert (weights.attention > 0) == (acoustic and decoder != "attention")
    own = RecognitionOptions.parse({**sent, "word_bonus": 7}).weights
    assert own == weights._replace(word_bonus=7.0)
    if rescorer:
        own = RecognitionOptions.parse({**sent, "lm_weight": 0}).weights
        assert own == weights._replace(lm=0.0)


def test_a_search_with_the_language_model_does_not_count_it_again():
    sent = {"decoder": "ctc", "lm_fusion": True, "lm_weight": 0.3, "attention_rescore": True}
    options = RecognitionOptions.parse({**sent, "word_bonus": 2})
    assert options.fusion_weights == fusion_weights("ctc")._replace(lm=0.3, word_bonus=2)
    assert (options.weights.lm, options.weights.word_bonus) == (0, 0)


def test_more_hypotheses_are_kept_where_they_are_rescored():
    plain, rescored = ({}, {"rescore": True})
    assert RecognitionOptions.parse(plain).beam_size == 1
    assert RecognitionOptions.parse({"nbest": 3}).beam_size == 3
    assert RecognitionOptions.parse(rescored).beam_size == 10
    assert RecognitionOptions.parse({**rescored, "beam_size": 7}).beam_size == 7


@pytest.mark.parametrize("mode", ["offline", "two_pass"])
@pytest.mark.parametrize("decoder", ["attention", "ctc", "wfst"])
def test_a_preset_is_the_options_that_it_sets(mode, decoder):
    live = mode == "two_pass"
    presets = set()
    for accuracy in ("fast", "balanced", "best"):
        sent = {"mode": mode, "decoder": decoder, "accuracy": accuracy}
        options = RecognitionOptions.parse(sent, live=live)
        preset = decoders()[decoder].presets.get(accuracy, {})
        set_out = {"mode": mode, "decoder": decoder, **preset}
        assert replace(options, accuracy="fast") == RecognitionOptions.parse(set_out, live=live)
        presets.add(replace(options, accuracy="fast"))
    assert len(presets) == 3


def test_what_is_sent_beside_a_preset_counts():
    options = RecognitionOptions.parse({"accuracy": "best", "rescore": False, "nbest": 2})
    assert (options.rescore, options.ctc_rescore, options.nbest) == (False, True, 2)


@pytest.mark.parametrize(
    ("sent", "hotwords", "prompt"),
    [
        ({}, "Syme:9, H100", ""),
        ({"decoder": "attention"}, "Syme:9, H100", "Syme, H100."),
        ({"decoder": "attention", "prompt": ""}, "Syme:9, H100", ""),
        ({"decoder": "attention", "prompt": "A talk."}, "Syme:9, H100", "A talk."),
        ({"decoder": "attention", "hotwords": "Prynne"}, "Prynne", "Syme, H100."),
        ({"decoder": "wfst"}, "Syme:9, H100", ""),
    ],
)
def test_names_set_what_a_decoder_takes_and_what_is_sent_wins(sent, hotwords, prompt):
    options = RecognitionOptions.parse({"names": "Syme:9, H100", **sent})
    assert (options.hotwords, options.prompt) == (hotwords, prompt)


def test_names_choose_no_decoder():
    first, second, *_ = RecognitionOptions.candidates({"names": "Syme"})
    assert (first.decoder, first.prompt) == ("moonshine", "")
    assert (second.decoder, second.prompt) == ("attention", "Syme.")
    # A recording in another language goes to who knows it.
    assert first.by("attention").prompt == "Syme."
    assert RecognitionOptions.parse({"hotwords": "Syme"}).by("attention").prompt == ""
    live = RecognitionOptions.parse({"names": "Syme", "decoder": "attention"}, live=True)
    assert (live.mode, live.prompt, live.of_first_pass().hotwords) == ("two_pass", "Syme.", "Syme")


def test_a_stream_has_no_memory_of_the_vad_to_begin_with():
    with pytest.raises(OptionError, match=r"^option 'vad_state' is .* not with live audio$"):
        RecognitionOptions.parse({"vad_state": "AAAA"}, live=True)


def test_a_streams_options():
    streaming = {"mode": "streaming"}
    assert RecognitionOptions.parse(streaming, live=True).decoder == "wfst"
    hot = RecognitionOptions.parse({"mode": "streaming", "hotwords": "conch"}, live=True)
    assert hot.decoder == "wfst"
    two_pass = RecognitionOptions.parse({"hotwords": "conch"}, live=True)
    assert (two_pass.mode, two_pass.decoder) == ("two_pass", "moonshine")
    first = two_pass.of_first_pass()
    assert (first.decoder, first.hotwords) == ("wfst", "conch")
    fused = RecognitionOptions.parse({"mode": "two_pass", "lm_fusion": True}, live=True)
    assert fused.of_first_pass().decoder == "ctc"
    assert first.beam_size == RecognitionOptions.parse({"decoder": "ctc"}).beam_size


@pytest.mark.parametrize(
    ("sent", "mode"),
    [
        ({}, "two_pass"),
        ({"mode": "auto", "accuracy": "best"}, "two_pass"),
        ({"decoder": "attention"}, "two_pass"),
        ({"decoder": "wfst"}, "streaming"),
        ({"decoder": "ctc"}, "streaming"),
        ({"lm_fusion": True}, "streaming"),
        ({"hotwords": "conch", "decoder": "attention"}, "two_pass"),
        ({"endpointing": False}, "streaming"),
    ],
)
def test_a_stream_has_two_passes_unless_an_option_would_get_lost(sent, mode):
    assert RecognitionOptions.parse(sent, live=True).mode == mode


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"mode": "offline"}, "option 'mode' of a stream's chunks cannot be offline"),
        (
            {"mode": "streaming", "decoder": "attention"},
            "option 'decoder' takes transducer, paraformer_online, kaldi, wenet, ctc, wfst with "
            "mode streaming; sent: attention",
        ),
        ({"lattice": True}, "option 'lattice' goes with decoder wfst; decoder is moonshine"),
        (
            {"lattice": True, "decoder": "wfst"},
            "option 'lattice' goes with recordings and mode two_pass, not streaming",
        ),
        (
            {"mode": "streaming", "attention_rescore": True},
            "option 'attention_rescore' goes with mode two_pass",
        ),
        (
            {"mode": "two_pass", "decoder": "wfst", "lm_fusion": True},
            "option 'lm_fusion' goes with decoder ctc or transducer; decoder is wfst",
        ),
        (
            {"decoder": "sensevoice", "ctc_rescore": True},
            "option 'ctc_rescore' goes with decoder attention or moonshine; decoder is sensevoice",
        ),
        (
            {"decoder": "paraformer", "languages": "zh,en"},
            "option 'languages' goes with decoder attention; decoder is paraformer",
        ),
        ({"mode": "two_pass", "endpointing": False}, "option 'endpointing' cannot be false"),
        (
            {"mode": "streaming", "rescore": True},
            "option 'rescore' with decoder wfst goes with mode two_pass",
        ),
        (
            {"mode": "streaming", "accuracy": "best"},
            "option 'accuracy' takes fast with mode streaming; sent: best",
        ),
        ({"channels": 1}, "option 'channels' is for recordings, a stream is mono; sent: 1"),
        ({"mode": "two_pass", "channels": "split"}, "option 'channels' is for recordings"),
        (
            {"rolling_pass_ms": 10_001},
            "option 'rolling_pass_ms' takes an integer from 0 to 10000; sent: 10001",
        ),
        (
            {"rolling_pass_ms": -1},
            "option 'rolling_pass_ms' takes an integer from 0 to 10000; sent: -1",
        ),
        ({"adaptive": 2}, "option 'adaptive' takes a bool (true or false); sent: 2"),
        (
            {"stream_priority": "urgent"},
            "option 'stream_priority' takes one of low, normal, high; sent: 'urgent'",
        ),
        ({"history_s": 86_401}, "option 'history_s' takes an integer from 0 to 86400; sent: 86401"),
    ],
)
def test_what_a_stream_cannot_do(parameters, message):
    with pytest.raises(OptionError) as error:
        RecognitionOptions.parse(parameters, live=True)
    assert str(error.value).startswith(message)


def test_a_first_pass_has_options_of_decoders_that_hear_live_audio():
    result = [name for name, item in all_options().items() if is_of_first_pass(item)]
    assert result == ["lm_fusion"]


def test_the_options_of_rolling_passes():
    sent = {"rolling_pass_ms": 640, "adaptive": False, "stream_priority": "high", "history_s": 0}
    options = RecognitionOptions.parse(sent, live=True)
    result = (options.rolling_pass_ms, options.adaptive, options.stream_priority, options.history_s)
    assert result == (640, False, "high", 0)
    usual = RecognitionOptions.parse({}, live=True)
    assert (usual.adaptive, usual.stream_priority) == (True, "normal")
    assert usual.rolling_pass_ms > 0 < usual.history_s


@pytest.mark.parametrize(
    ("sent", "decoder"),
    [
        ({}, "moonshine"),
        ({"language": "en-GB"}, "moonshine"),
        ({"accuracy": "best"}, "moonshine"),
        ({"language": "de"}, "attention"),
        ({"languages": "de,en"}, "attention"),
        ({"task": "translate"}, "attention"),
        ({"prompt": "Hester Prynne"}, "attention"),
        ({"language": "de", "decoder": "ctc"}, "ctc"),
    ],
)
@pytest.mark.parametrize("live", [False, True])
def test_the_default_decoder_is_the_best_that_can_do_what_is_asked_for(sent, decoder, live):
    assert RecognitionOptions.parse(sent, live=live).decoder == decoder


def test_what_a_client_leaves_open_has_an_order_in_which_a_server_tries_it():
    def tried(*, live=False, **sent):
        result = RecognitionOptions.candidates(sent, live=live)
        return [(options.mode, options.decoder) for options in result]

    names = ("moonshine", "attention", "transducer", "paraformer", "paraformer_online", "kaldi")
    each = [("offline", name) for name in (*names, "wenet")]
    voice = ("offline", "sensevoice")
    assert tried(accuracy="best") == [*each[:5], voice, *each[5:]]
    assert tried(prompt="Hester Prynne") == each[1:2]
    assert tried(decoder="moonshine") == each[:1]
    assert tried(languages="de,en", language="auto") == each[1:2]
    assert tried(language="de") == each[1:]
    passes = [("two_pass", name) for name in (*names[:5], "sensevoice", "kaldi", "wenet")]
    live = ("wfst", "transducer", "paraformer_online", "kaldi", "wenet")
    heard = [("streaming", name) for name in live]
    in_order = [*passes[:2], heard[1], passes[3], heard[2], passes[5], *heard[3:]]
    assert tried(live=True) == [*in_order, heard[0]]
    assert tried(live=True, mode="two_pass") == passes
    assert tried(live=True, decoder="attention") == passes[1:2]
    assert tried(live=True, accuracy="best") == [*passes[:2], passes[3], passes[5]]
    assert tried(live=True, mode="streaming") == heard
    assert tried(live=True, endpointing=False) == heard
    fused = [("streaming", "ctc"), ("streaming", "transducer")]
    assert tried(live=True, lm_fusion=True) == fused


def test_presets_follow_the_decoder_that_is_tried():
    best, other, third, *_ = RecognitionOptions.candidates({"accuracy": "balanced"})
    assert best.ctc_rescore != other.ctc_rescore
    assert (third.beam_size, third.is_rescored) == (4, False)


def test_the_options_of_families_that_ship_have_types():
    for family in FAMILIES:
        hint = f"make {family.name}'s options a base of FamilyOptions in conch.families"
        assert family.options is None or issubclass(RecognitionOptions, family.options), hint


def test_what_was_sent_is_kept_for_the_server_and_is_no_part_of_what_it_means():
    options = RecognitionOptions.parse({"language": "german", "nbest": 2, "beam_size": 10})
    assert options.sent == {"language": "de", "nbest": 2, "beam_size": 10}
    assert options == RecognitionOptions.parse({**options.sent, "partials": True})
    usual = options.unless_sent(nbest=5, history_s=1)
    assert (usual.nbest, usual.history_s, usual.sent) == (2, 1, {**options.sent, "history_s": 1})
