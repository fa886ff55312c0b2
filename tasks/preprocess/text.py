"""From texts to tokens: words, characters or the pieces of a pretrained tokenizer; and whose word each token is."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from conf.schema import Data, Tokens
from tasks.content import Content, write_content
from tasks.preprocess.cut import common_audit, cut, describe, published, sample_name, write_parts
from tasks.preprocess.errors import DataError
from tasks.preprocess.public import TextSource
from tasks.preprocess.vocabulary import SPECIAL, write_vocabulary

WORD = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")
SPACED = re.compile(r"\S+")
SCHEMA = pa.schema(
    [
        ("sample", pa.string()),
        ("tokens", pa.list_(pa.int32())),
        ("words", pa.list_(pa.int32())),
        ("word_texts", pa.list_(pa.string())),
        ("sentences", pa.list_(pa.int32())),
        ("sentence_texts", pa.list_(pa.string())),
        ("label", pa.int8()),
    ]
)

Spans = list[tuple[int, int]]


@dataclass(frozen=True)
class Cut:
    """A text's tokens: the piece of text that each is, and where it begins and ends."""

    pieces: list[str]
    spans: Spans


Tokenize = Callable[[str], Cut]


def write_texts(source: TextSource, data: Data, seed: int, out: Path) -> dict[str, Any]:
    """Turn a public data set's texts into tokens under ``out`` and return the audit.

    A text without a token takes no part, with a count in the audit.

    Raises:
        DataError: files or a tokenizer that cannot be used, or a part that lacks a class.
    """
    tokenize, vocabulary = tokenizer(data)
    raw = {part: source.rows(part) for part in ("train", "test")}
    labels: dict[str, list[int | None]] = {}
    rows: dict[str, dict[str, int]] = {}
    for part, table in raw.items():
        of = [source.label(row) if source.text(row).strip() else None for row in table]
        labels[part] = of
        rows[part] = {"rows": len(of), "empty text": sum(label is None for label in of)}
    parts = cut(labels, data, seed, source.classes)
    if vocabulary is None:
        train = (source.text(raw["train"][int(row)]) for row in parts["train"])
        vocabulary = build_vocabulary((tokenize(text).pieces for text in train), data)
    ids = {token: place for place, token in enumerate(vocabulary["tokens"])}
    writer = Writer(source, data, tokenize, ids, vocabulary["special"]["unk"])
    made: dict[str, dict[str, list]] = {}
    for part, kept in parts.items():
        given = published(part)
        made[part] = writer.columns(part, raw[given], kept) | {"label": [labels[given][row] for row in kept]}
    write_parts(made, SCHEMA, data, seed, out)
    write_vocabulary(vocabulary, out)
    pretrained = data.text.pretrained if data.text.unit == "pieces" else ""
    write_content(Content("text", source.classes, data.tokens.max_tokens, pretrained=pretrained), out)
    audit = common_audit(source, data, seed, rows)
    return audit | {"facts": writer.facts(len(vocabulary["tokens"])), "split": describe(parts, labels, source.classes)}


class Writer:
    """Makes the columns of each part, and counts what is cut."""

    def __init__(self, source: TextSource, data: Data, tokenize: Tokenize, ids: dict[str, int], unknown: int) -> None:
        self.source = source
        self.data = data
        self.tokenize = tokenize
        self.ids = ids
        self.unknown = unknown
        self.lengths: list[int] = []
        self.cut = Counter[str]()

    def columns(self, part: str, raw: Any, rows: np.ndarray) -> dict[str, list]:
        """Return a part's columns but for the labels."""
        columns: dict[str, list] = {name: [] for name in SCHEMA.names}
        for row in rows.tolist():
            text = self.source.text(raw[row])
            for name, value in self.sample(text, self.data.text.sentences and part == "test").items():
                columns[name].append(value)
            columns["sample"].append(sample_name(part, row))
        return columns

    def sample(self, text: str, with_sentences: bool) -> dict[str, list]:
        """Return a text's tokens, the word and the sentence of each, and their texts."""
        found = self.tokenize(text)
        kept = kept_part(len(found.pieces), self.data.tokens)
        pieces, spans = found.pieces[kept], found.spans[kept]
        self.lengths.append(len(found.pieces))
        self.cut["texts"] += len(pieces) < len(found.pieces)
        self.cut["tokens"] += len(found.pieces) - len(pieces)
        words, word_texts = whose(text, spans, word_spans(text, self.data.text.unit))
        sentences: list[int] = []
        sentence_texts: list[str] = []
        if with_sentences:
            every = sentence_spans(text)
            sentences, sentence_texts = whose(text, spans, every)
            self.cut["sentences"] += len(every) - len(sentence_texts)
        return {
            "tokens": [self.ids.get(piece, self.unknown) for piece in pieces],
            "words": words,
            "word_texts": word_texts,
            "sentences": sentences,
            "sentence_texts": sentence_texts,
        }

    def facts(self, size: int) -> dict[str, Any]:
        """Return the audit's facts about length and vocabulary."""
        lengths = np.array(self.lengths)
        facts = {
            "tokens in the vocabulary": size,
            "tokens a text, median": int(np.median(lengths)),
            "tokens a text, most": int(lengths.max()),
            "texts cut to the longest length": self.cut["texts"],
            "share of texts cut": round(self.cut["texts"] / len(lengths), 4),
            "tokens lost": self.cut["tokens"],
        }
        if self.data.text.sentences:
            facts["test sentences lost to the longest length"] = self.cut["sentences"]
        return facts


def kept_part(length: int, tokens: Tokens) -> slice:
    """Return which tokens of a text stay where it is longer than the model."""
    if length <= tokens.max_tokens:
        return slice(None)
    return slice(length - tokens.max_tokens, None) if tokens.keep == "last" else slice(tokens.max_tokens)


def tokenizer(data: Data) -> tuple[Tokenize, dict[str, Any] | None]:
    """Return how texts are cut, and the vocabulary where it comes with the tokenizer."""
    unit, lower = data.text.unit, data.text.lower_case
    if unit == "pieces":
        return pretrained_tokenizer(data.text.pretrained)
    if unit == "characters":
        return lambda text: Cut(list(lowered(text, lower)), [(at, at + 1) for at in range(len(text))]), None

    def words(text: str) -> Cut:
        spans = [found.span() for found in WORD.finditer(text)]
        return Cut([lowered(text[start:end], lower) for start, end in spans], spans)

    return words, None


def lowered(text: str, lower: bool) -> str:
    """Return ``text`` in lower case where wanted, character by character, so that its length stays."""
    if not lower:
        return text
    return "".join(small if len(small := character.lower()) == 1 else character for character in text)


def pretrained_tokenizer(name: str) -> tuple[Tokenize, dict[str, Any]]:
    """Return a pretrained encoder's way of cutting texts, and its vocabulary.

    Raises:
        DataError: there is no such tokenizer, or it cannot say where a token comes from.
    """
    from transformers import AutoTokenizer

    try:
        made = AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as error:
        told = "give the folder of a pretrained encoder, or go online: data.text.pretrained"
        raise DataError("no pretrained tokenizer", name, told) from error
    if not made.is_fast or made.mask_token_id is None or made.cls_token_id is None:
        raise DataError("not a tokenizer with [CLS], [MASK] and offsets", name, "take a BERT-like encoder")

    names = list(made.convert_ids_to_tokens(list(range(len(made)))))

    def pieces(text: str) -> Cut:
        found = made(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        return Cut([names[token] for token in found["input_ids"]], found["offset_mapping"])

    special = {"pad": made.pad_token_id, "cls": made.cls_token_id, "mask": made.mask_token_id, "unk": made.unk_token_id}
    return pieces, {"tokens": names, "counts": [], "special": special}


def build_vocabulary(texts: Iterable[list[str]], data: Data) -> dict[str, Any]:
    """Return the vocabulary of the training texts, as ``vocabulary.json`` holds it: by falling count, then by name."""
    counts = Counter(piece for pieces in texts for piece in pieces)
    ranked = sorted(
        (item for item in counts.items() if item[1] >= data.tokens.min_count), key=lambda item: (-item[1], item[0])
    )[: data.text.most_tokens]
    return {
        "tokens": [*SPECIAL, *(token for token, _ in ranked)],
        "counts": [0, 0, 0, sum(counts.values()) - sum(count for _, count in ranked), *(count for _, count in ranked)],
        "special": {name.strip("[]").lower(): place for place, name in enumerate(SPECIAL)},
    }


def word_spans(text: str, unit: str) -> Spans:
    """Return where the words of a text are: between blanks, or as the tokens are where tokens are words."""
    return [found.span() for found in (WORD if unit == "words" else SPACED).finditer(text)]


def sentence_spans(text: str) -> Spans:
    """Return where the sentences of a text are, by pysbd's rules."""
    import pysbd

    found = pysbd.Segmenter(language="en", clean=False, char_span=True).segment(text)
    spans = sorted({(span.start, span.end) for span in found if span.sent.strip()})
    return spans or [(0, len(text))]


def whose(text: str, spans: Spans, owners: Spans) -> tuple[list[int], list[str]]:
    """Return the owner of each token, numbered from 0 without gaps, and the owners' texts.

    A token belongs to the last owner that begins at or before it; what precedes the first owner is the first one's.

    >>> whose("so good", [(0, 1), (1, 2), (2, 3), (3, 7)], [(0, 2), (3, 7)])
    ([0, 0, 0, 1], ['so', 'good'])
    """
    starts = np.array([start for start, _ in owners])
    of = np.searchsorted(starts, [start for start, _ in spans], side="right") - 1 if spans else np.empty(0, dtype=int)
    numbers, dense = np.unique(np.maximum(of, 0), return_inverse=True)
    return dense.tolist(), [text[slice(*owners[number])].strip() for number in numbers]
