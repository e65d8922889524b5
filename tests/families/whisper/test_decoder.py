"""The decoder on real weights and real speech."""

from itertools import pairwise

import ctranslate2
import jiwer
import numpy as np
import pytest
from recordings import TIGER, wer
from whisper_normalizer.english import EnglishTextNormalizer

from conch.component import Row, answers, bytes_array
from conch.families.whisper.config import model_folder
from conch.families.whisper.decoder import WhisperDecoder, WhisperDecoderConfig
from conch.families.whisper.encoder import WhisperEncoder, WhisperEncoderConfig
from conch.wire.errors import ConfigError, InvalidRequestError, OptionError

END_OF_TEXT = 50256
SUPPRESSION = -0.05
"""Nats of the tokens that the search alone forbids, which are improbable in all steps."""
LIKELY_END = np.log(2)
"""Nats of an end of the text that is more probable than all else."""


@pytest.fixture(scope="module")
def recordings(speech) -> list[tuple[np.ndarray, str]]:
    return [(item.waveform(), item.text) for item in speech]


@pytest.fixture(scope="module")
def encoder() -> WhisperEncoder:
    return WhisperEncoder(WhisperEncoderConfig())


@pytest.fixture(scope="module")
def decoder() -> WhisperDecoder:
    return WhisperDecoder(WhisperDecoderConfig())


@pytest.fixture(scope="module")
def exact_encoder() -> WhisperEncoder:
    return WhisperEncoder(WhisperEncoderConfig(compute_type="float32"))


@pytest.fixture(scope="module")
def exact_decoder() -> WhisperDecoder:
    """For comparisons in nats: int8 sums differ by processor and by the size of a batch."""
    decoder = WhisperDecoder(WhisperDecoderConfig(compute_type="float32"))
    assert decoder._model.compute_type == "float32"
    return decoder


@pytest.fixture(scope="module")
def reference() -> ctranslate2.models.Whisper:
    """Return a model that the decoder does not set up."""
    return ctranslate2.models.Whisper(str(model_folder("")), compute_type="float32")


@pytest.fixture(scope="module")
def exactly_encoded(exact_encoder, tiger) -> dict[str, np.ndarray]:
    (answer,) = exact_encoder([Row({"waveform": tiger})])
    return answer


@pytest.fixture(scope="module")
def encoded(encoder, tiger) -> dict[str, np.ndarray]:
    (answer,) = encoder([Row({"waveform": tiger})])
    return answer


def is_tiger(text: bytes) -> bool:
    """Tell whether at most one word in ten is another than in `TIGER`.

    Whisper hears "What immortal" and "What a mortal" as equally probable: rounding decides.
    """
    return wer(TIGER, text.decode()) <= 0.1


def aligned(decoder, encoded, text: str) -> dict[str, np.ndarray]:
    (answer,) = decoder([Row({**encoded, "text": bytes_array([text])})])
    return answer


def test_reads_speech(encoder, decoder, recordings):
    rows = encoder([Row({"waveform": waveform}) for waveform, _ in recordings])
    answers = decoder([Row(row) for row in rows])
    normalized = EnglishTextNormalizer()
    references = [normalized(text) for _, text in recordings]
    texts = [answer["hypotheses"][0].decode() for answer in answers]
    assert jiwer.wer(references, [normalized(text) for text in texts]) < 0.06
    assert texts[4] == "As President, I recognize that I cannot do this job alone."


def test_nbest_is_distinct_and_best_first(decoder, encoded):
    (answer,) = decoder([Row(encoded, {"beam_size": 5, "nbest": 4, "language": "en"})])
    texts = [text.decode() for text in answer["hypotheses"]]
    assert is_tiger(answer["hypotheses"][0])
    assert len(set(texts)) == len(texts) == 4
    assert answer["scores"].dtype == np.float32
    assert (np.diff(answer["scores"]) <= 0).all() and answer["scores"][0] < 0


def test_the_order_is_whispers_own_by_the_average_of_a_token(
    exact_encoder, exact_decoder, reference, recordings
):
    encoder, decoder = exact_encoder, exact_decoder
    by_sum = 0
    for waveform, _ in recordings[:2]:
        (row,) = encoder([Row({"waveform": waveform})])
        (answer,) = decoder([Row(row, {"nbest": 5, "beam_size": 5})])
        (found,) = reference.generate(
            ctranslate2.StorageView.from_array(row["encoder_out"][None]),
            [decoder.tokens.prompt("en")],
            beam_size=5,
            num_hypotheses=5,
            return_scores=True,
        )
        texts = [decoder.tokens.decode(ids).strip() for ids in found.sequences_ids]
        assert [text.decode() for text in answer["hypotheses"]] == list(dict.fromkeys(texts))
        sizes = [len(ids) for ids in found.sequences_ids]
        first = [texts.index(text) for text in dict.fromkeys(texts)]
        scores = [found.scores[index] * sizes[0] for index in first]
        assert answer["scores"].tolist() == pytest.approx(scores, rel=1e-5)
        sums = [score * size for score, size in zip(found.scores, sizes, strict=True)]
        by_sum += sums != sorted(sums, reverse=True)
    assert by_sum, "in no recording the sum would order them otherwise"


def test_one_hypothesis_unless_asked_for_more(decoder, encoded):
    (answer,) = decoder([Row(encoded)])
    (text,) = answer["hypotheses"]
    assert is_tiger(text)


def test_a_score_is_the_sum_of_log_probabilities_with_the_end_of_text(
    exact_decoder, reference, exactly_encoded
):
    """Held against the model's own logits, one softmax a step."""
    decoder, encoded = exact_decoder, exactly_encoded
    (answer,) = decoder([Row(encoded, {"beam_size": 1})])
    (greedy,) = reference.generate(
        ctranslate2.StorageView.from_array(encoded["encoder_out"][None]),
        [decoder.tokens.prompt("en")],
        beam_size=1,
        return_logits_vocab=True,
    )
    total = 0.0
    tokens = [*greedy.sequences_ids[0], END_OF_TEXT]
    for step, token in zip(greedy.logits[0], tokens, strict=True):
        logits = np.array(step).ravel().astype(np.float64)
        total += logits[token] - np.logaddexp.reduce(logits)
    assert (
        answer["hypotheses"][0].decode() == decoder.tokens.decode(greedy.sequences_ids[0]).strip()
    )
    assert answer["scores"][0] == pytest.approx(total, abs=0.02)


def test_a_score_agrees_with_the_alignments_probabilities(exact_decoder, exactly_encoded):
    """The alignment feeds the text as a whole; it knows neither suppression nor the end."""
    decoder, encoded = exact_decoder, exactly_encoded
    (answer,) = decoder([Row(encoded)])
    best = answer["hypotheses"][0].decode()
    (alignment,) = decoder._model.align(
        ctranslate2.StorageView.from_array(encoded["encoder_out"][None]),
        decoder.tokens.start_sequence("en"),
        [decoder.tokens.encode(best, "en")],
        [732],
    )
    total = np.log(alignment.text_token_probs).sum()
    assert SUPPRESSION < total - answer["scores"][0] < LIKELY_END


def test_a_batch_answers_each_row_as_if_alone(exact_encoder, exact_decoder, recordings, tiger):
    encoder, decoder = exact_encoder, exact_decoder
    waveforms = [tiger, recordings[0][0], np.tile(tiger, 2)]
    rows = encoder([Row({"waveform": waveform}) for waveform in waveforms])
    parameters = [{"beam_size": size, "nbest": 2} for size in (5, 1, 5)]
    together = decoder([Row(*item) for item in zip(rows, parameters, strict=True)])
    for row, sent, answer in zip(rows, parameters, together, strict=True):
        (alone,) = decoder([Row(row, sent)])
        assert alone["hypotheses"][0] == answer["hypotheses"][0]
        np.testing.assert_allclose(alone["scores"][0], answer["scores"][0], atol=1e-2)


def test_decoding_and_alignment_share_a_batch(decoder, encoded):
    align, decode = decoder([Row({**encoded, "text": bytes_array([TIGER])}), Row(encoded)])
    assert b" ".join(align["words"]).decode() == TIGER
    assert is_tiger(decode["hypotheses"][0])


@pytest.mark.parametrize(
    "sound",
    [
        np.zeros(5 * 16_000, np.float32),
        np.random.default_rng(0).normal(0, 0.05, 5 * 16_000).astype(np.float32),
    ],
    ids=["silence", "noise"],
)
def test_where_nobody_speaks_there_is_no_text(encoder, sound):
    # By default the text must be improbable too: 'you', tiny.en's guess at silence, is not.
    strict = WhisperDecoder(WhisperDecoderConfig(no_speech_threshold=0.3, log_prob_threshold=0))
    (row,) = encoder([Row({"waveform": sound})])
    (answer,) = strict([Row(row, {"nbest": 3})])
    assert answer["hypotheses"].tolist() == [b""]
    assert np.log(0.3) < answer["scores"][0] <= 0


def scored(decoder, encoded, texts: list[str]) -> list[float]:
    (answer,) = decoder([Row({**encoded, "texts": bytes_array(texts)})])
    return answer["text_scores"].tolist()


def test_a_forced_texts_score_is_that_of_the_search_without_the_end_of_text(
    exact_decoder, exactly_encoded
):
    decoder, encoded = exact_decoder, exactly_encoded
    (answer,) = decoder([Row(encoded, {"beam_size": 5, "nbest": 5})])
    texts = [text.decode() for text in answer["hypotheses"]]
    for searched, forced in zip(answer["scores"], scored(decoder, encoded, texts), strict=True):
        assert SUPPRESSION < forced - searched < LIKELY_END


def test_what_was_said_scores_above_what_was_not(decoder, encoded):
    said, misheard, other, nothing = scored(
        decoder,
        encoded,
        [TIGER, TIGER.replace("frame", "blame"), "The quick brown fox jumps over it.", ""],
    )
    assert said > misheard > other
    assert said > nothing


def test_an_empty_text_scores_high_where_nobody_speaks(encoder, decoder):
    (silence,) = encoder([Row({"waveform": np.zeros(32_000, np.float32)})])
    said, nothing = scored(decoder, silence, [TIGER, ""])
    assert nothing > said


def test_a_text_that_repeats_itself_is_decoded_again(encoded):
    keeping = WhisperDecoder(
        WhisperDecoderConfig(compression_ratio_threshold=0.5, no_repeat_ngram_size=0)
    )
    forbidding = WhisperDecoder(
        WhisperDecoderConfig(compression_ratio_threshold=0.5, no_repeat_ngram_size=1)
    )
    (kept,) = keeping([Row(encoded)])
    (again,) = forbidding([Row(encoded)])
    assert is_tiger(kept["hypotheses"][0])
    tokens = forbidding.tokens.encode(again["hypotheses"][0].decode(), "en")
    assert len(set(tokens)) == len(tokens)


def test_a_compression_ratio_threshold_of_0_keeps_every_text(decoder, encoded):
    keeping = WhisperDecoder(
        WhisperDecoderConfig(compression_ratio_threshold=0, no_repeat_ngram_size=1)
    )
    (kept,) = keeping([Row(encoded)])
    (expected,) = decoder([Row(encoded)])
    assert kept["hypotheses"].tolist() == expected["hypotheses"].tolist()


@pytest.mark.nightly
def test_words_have_the_times_of_faster_whisper(encoder, decoder, recordings):
    faster_whisper = pytest.importorskip("faster_whisper")
    reference = faster_whisper.WhisperModel(str(model_folder("")), compute_type="int8")
    differences = []
    for waveform, _ in recordings:
        segments, _ = reference.transcribe(waveform, language="en", word_timestamps=True)
        pieces = [word for segment in segments for word in segment.words]
        # It parts words at hyphens, and leaves a dash on its own.
        heads = [piece for piece in pieces if piece.word[0] == " " and piece.word != " --"]
        tails = [piece for piece in pieces if piece.word != " --"]
        tails = [a for a, b in pairwise([*tails, heads[0]]) if b.word[0] == " "]
        (row,) = encoder([Row({"waveform": waveform})])
        found = aligned(decoder, row, "".join(piece.word for piece in pieces))
        assert len(found["words"]) == len(heads) == len(tails)
        differences += list(found["word_starts"] - [piece.start for piece in heads])
        differences += list(found["word_ends"] - [piece.end for piece in tails])
    assert np.mean(np.abs(differences) <= 0.1) > 0.9


def test_words_are_in_order_and_within_the_segment(encoder, decoder, recordings):
    for waveform, text in recordings:
        (row,) = encoder([Row({"waveform": waveform})])
        found = aligned(decoder, row, text)
        assert " ".join(word.decode() for word in found["words"]) == text
        starts, ends = found["word_starts"], found["word_ends"]
        assert starts[0] >= 0 and ends[-1] <= len(waveform) / 16_000 + 1e-6
        assert (starts < ends).all()
        assert (ends[:-1] <= starts[1:]).all()


def test_the_words_of_the_best_text_are_those_of_an_alignment_of_its_own(
    encoder, decoder, recordings, tiger
):
    waveforms = [tiger, *(waveform for waveform, _ in recordings)]
    rows = encoder([Row({"waveform": waveform}) for waveform in waveforms])
    parameters = [{"nbest": 2, "align": index != 1} for index in range(len(rows))]
    together = decoder([Row(*item) for item in zip(rows, parameters, strict=True)])
    for row, sent, answer in zip(rows, parameters, together, strict=True):
        best = answer["hypotheses"][0].decode()
        wanted = aligned(decoder, row, best if sent["align"] else "")
        assert len(wanted["words"]) == (len(best.split()) if sent["align"] else 0)
        for name, column in wanted.items():
            np.testing.assert_array_equal(answer[name], column)


def test_confidence_tells_what_was_said_from_what_was_not(decoder, encoded):
    said = aligned(decoder, encoded, TIGER)["word_confidences"]
    changed = aligned(decoder, encoded, TIGER.replace("symmetry", "bananas"))
    assert (said > 0.3).all() and (said <= 1).all()
    assert changed["word_confidences"][-1] < 0.01


@pytest.mark.parametrize("text", ["", "  "])
def test_no_text_has_no_words(decoder, encoded, text):
    answer = aligned(decoder, encoded, text)
    assert [len(answer[name]) for name in sorted(answer)] == [0, 0, 0, 0]


def test_a_bad_row_fails_alone(decoder, encoded):
    out, lens = encoded["encoder_out"], encoded["encoder_out_lens"]
    rows = [
        Row(encoded, {"language": "de"}),
        Row(encoded, {"beam_size": 0}),
        Row(encoded, {"nbest": True}),
        Row({"encoder_out": out[:, :100], "encoder_out_lens": lens}),
        Row({"encoder_out": out, "encoder_out_lens": np.array([751], np.int32)}),
        Row({**encoded, "text": bytes_array(["word " * 500])}),
        Row(encoded),
    ]
    *errors, good = answers(decoder, rows)
    assert [type(error) for error in errors] == [OptionError] * 3 + [InvalidRequestError] * 3
    assert [str(error) for error in errors] == [
        "option 'language' takes auto or en: this model knows English only; conch serve "
        "--whisper base serves 99 languages; sent: 'de'",
        "option 'beam_size' takes an integer from 1 to 32; sent: 0",
        "option 'nbest' takes an integer from 1 to 32; sent: True",
        "input 'encoder_out' must have the shape [frames, 384]: encoder and decoder must come "
        "from one model; sent: [750, 100]",
        "input 'encoder_out_lens' must be from 1 to the 750 frames of encoder_out; sent: 751",
        "a text to align or score must have at most 445 tokens; sent: 500",
    ]
    assert is_tiger(good["hypotheses"][0])


def test_what_makes_a_call_dear_is_limited(decoder, encoded):
    frames = np.zeros((1501, encoded["encoder_out"].shape[1]), np.float32)
    rows = [
        Row(encoded, {"beam_size": 32, "nbest": 32}),
        Row(encoded, {"beam_size": 33}),
        Row(encoded, {"nbest": 33}),
        Row({**encoded, "texts": bytes_array(["Tiger"] * 32)}),
        Row({**encoded, "texts": bytes_array(["Tiger"] * 33)}),
        Row({**encoded, "text": bytes_array(["Tiger"] * 2)}),
        Row({**encoded, "encoder_out": frames}),
    ]
    decoded, beam, nbest, scored, texts, text, window = answers(decoder, rows)
    assert 1 <= len(decoded["hypotheses"]) <= 32
    assert len(scored["text_scores"]) == 32
    assert [str(error) for error in (beam, nbest, texts, text, window)] == [
        "option 'beam_size' takes an integer from 1 to 32; sent: 33",
        "option 'nbest' takes an integer from 1 to 32; sent: 33",
        "input 'texts' takes at most 32 texts; sent: 33",
        "input 'text' takes at most 1 texts; sent: 2",
        "input 'encoder_out' takes at most 1500 frames, those of 30 s; sent: 1501",
    ]


def test_a_missing_tokenizer_is_named(tmp_path):
    for name in ("model.bin", "config.json", "vocabulary.txt"):
        (tmp_path / name).symlink_to(model_folder("") / name)
    with pytest.raises(ConfigError, match=f"'{tmp_path}' has no tokenizer.json"):
        WhisperDecoder(WhisperDecoderConfig(model=str(tmp_path)))


PROMPTS = ("Prynne, Uncas, Timaeus, Poyser, Soames.", "Thank you for watching. Please subscribe.")


@pytest.mark.parametrize("prompt", PROMPTS)
def test_a_prompt_is_not_repeated_for_silence_and_noise(encoder, decoder, prompt):
    noise = (0.05 * np.random.default_rng(0).standard_normal(160_000)).astype(np.float32)
    heard = [np.zeros(48_000, np.float32), noise, noise[:48_000]]
    rows = encoder([Row({"waveform": waveform}) for waveform in heard])
    plain = decoder([Row(row) for row in rows])
    prompted = decoder([Row(row, {"prompt": prompt}) for row in rows])
    for with_prompt, without in zip(prompted, plain, strict=True):
        assert with_prompt["hypotheses"][0] in (b"", without["hypotheses"][0])


def test_a_prompt_changes_the_spelling_of_what_was_said(decoder, encoded):
    (answer,) = decoder([Row(encoded, {"prompt": "he said nothing more and went home that night"})])
    (plain,) = decoder([Row(encoded)])
    assert answer["hypotheses"][0] != plain["hypotheses"][0]
    assert is_tiger(answer["hypotheses"][0])


def test_rows_with_prompts_answer_as_if_alone(encoder, decoder, recordings):
    rows = encoder([Row({"waveform": waveform}) for waveform, _ in recordings[:3]])
    prompts = [{"prompt": "Names: Prynne, Uncas."}, {}, {"prompt": "A speech, about history."}]
    together = decoder([Row(*item) for item in zip(rows, prompts, strict=True)])
    for row, sent, answer in zip(rows, prompts, together, strict=True):
        (alone,) = decoder([Row(row, sent)])
        assert alone["hypotheses"][0] == answer["hypotheses"][0]


def test_an_english_model_has_detected_nothing(decoder, encoded):
    (answer,) = decoder([Row(encoded, {"languages": "en"})])
    assert answer["language"].tolist() == [b"en"]
    assert np.isnan(answer["language_probability"]).tolist() == [True]
    (error,) = answers(decoder, [Row(encoded, {"task": "translate"})])
    assert isinstance(error, OptionError) and "option 'task'" in str(error)
