"""What datatrove's quality filters say of documents: verdicts, the numbers behind them, and how long they take.

    python quality_datatrove.py documents quality_documents.json.gz    the golden documents: numbers and verdicts anew
    python quality_datatrove.py mixture DIR quality_mixture.json.gz    a verdict code for each line of each file
    python quality_datatrove.py time FILE.jsonl                        documents a second, as one line of JSON

An environment of its own (`datatrove.txt`). Verdicts come from the filter classes; the numbers are those the classes
compare with their limits, made by the same functions of datatrove.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
import time
from pathlib import Path

from datatrove.data import Document
from datatrove.pipeline.filters import (
    C4QualityFilter,
    FineWebQualityFilter,
    GopherQualityFilter,
    GopherRepetitionFilter,
)
from datatrove.pipeline.filters import gopher_repetition_filter as rep
from datatrove.utils.text import PUNCTUATION_SET, TERMINAL_PUNCTUATION, split_into_sentences, split_into_words

#: fineweb-2 @ d0defb2, configs/: what its script passes on.
CMN = {
    "repetition": {
        "dup_para_frac": 0, "dup_line_char_frac": 0, "dup_para_char_frac": 0, "dup_line_frac": 0.287,
        "top_n_grams": ((2, 0.256), (3, 0.201), (4, 0.171)),
        "dup_n_grams": ((5, 0.198), (6, 0.182), (7, 0.167), (8, 0.154), (9, 0.14), (10, 0.127)),
    },
    "fineweb": {"short_line_thr": 999, "char_duplicates_ratio": 0.1, "line_punct_thr": 0.106, "new_line_ratio": 0.178},
    "quality": {
        "max_avg_word_length": 5, "min_avg_word_length": 1, "max_non_alpha_words_ratio": 0.735,
        "stop_words": list("的年在月是和日了於·為有被人中为他與後也而由"),
    },
}  # fmt: skip

#: datatrove's own code for each language: its "zh" is no Chinese splitter (a later line of its table wins).
CODES = {"en": "en", "zh": "cmn_Hani"}

CHAINS = {
    "gopher/datatrove": [GopherRepetitionFilter(), GopherQualityFilter()],
    "c4/datatrove": [C4QualityFilter()],
    "fineweb/code": [
        GopherRepetitionFilter(),
        GopherQualityFilter(),
        C4QualityFilter(filter_no_terminal_punct=False),
        FineWebQualityFilter(),
    ],
    "fineweb/paper": [
        GopherRepetitionFilter(),
        GopherQualityFilter(),
        C4QualityFilter(filter_no_terminal_punct=False),
        FineWebQualityFilter(char_duplicates_ratio=0.1),
    ],
    "fineweb2/cmn": [
        GopherRepetitionFilter(language="cmn_Hani", **CMN["repetition"]),
        FineWebQualityFilter(language="cmn_Hani", **CMN["fineweb"]),
        GopherQualityFilter(language="cmn_Hani", **CMN["quality"]),
    ],
}


def verdict(chain: str, text: str) -> tuple[str, str]:
    """Return the reason of the first filter that drops, "" if none, and the text as the filters left it."""
    doc = Document(text=text, id="x")
    for step in CHAINS[chain]:
        kept = step.filter(doc)
        if isinstance(kept, tuple):
            kept, reason = kept
        else:
            reason = "dropped"
        if not kept:
            return reason, doc.text
    return "", doc.text


def numbers(text: str, language: str) -> dict[str, float]:
    """Return what the filters compare with their limits, and the words."""
    words = split_into_words(text, language)
    plain = [word for word in words if any(char not in PUNCTUATION_SET for char in word)]
    lines, blocks = text.splitlines(), re.split("\n+", text)
    paragraphs = re.split(r"\n{2,}", text.strip())
    filled = [line for line in text.split("\n") if line.strip()]
    size, count = max(len(text), 1), max(len(words), 1)
    out: dict[str, float] = {
        "words": len(words),
        "plain_words": len(plain),
        "mean_word_length": sum(map(len, plain)) / max(len(plain), 1),
        "hashes": text.count("#") / count,
        "ellipses": (text.count("...") + text.count("…")) / count,
        "bullet_lines": sum(s.lstrip().startswith(("•", "-")) for s in lines) / max(len(lines), 1),
        "ellipsis_lines": sum(s.rstrip().endswith(("...", "…")) for s in lines) / max(len(lines), 1),
        "alpha_words": sum(any(c.isalpha() for c in w) for w in words) / count,
        "dup_paragraphs": rep.find_duplicates(paragraphs)[0] / len(paragraphs),
        "dup_paragraph_chars": rep.find_duplicates(paragraphs)[1] / size,
        "dup_lines": rep.find_duplicates(blocks)[0] / len(blocks),
        "dup_line_chars": rep.find_duplicates(blocks)[1] / size,
        "sentences": len(split_into_sentences(text, language)),
        "end_mark_lines": sum(s.endswith(tuple(TERMINAL_PUNCTUATION)) for s in filled) / max(len(filled), 1),
        "short_lines": sum(len(s) <= 30 for s in filled) / max(len(filled), 1),
        "dup_filled_line_chars": rep.find_duplicates(filled)[1] / max(len(text.replace("\n", "")), 1),
        "newlines": text.count("\n") / count,
    }
    for n in (2, 3, 4):
        grams = rep.get_n_grams(words, n)
        out[f"top_{n}_gram"] = rep.find_top_duplicate(grams) / size if grams else 0
    for n in range(5, 11):
        out[f"dup_{n}_grams"] = rep.find_all_duplicate(words, n) / size
    return out


def documents(path: Path) -> None:
    """Fill in, for each document of the file, its words, numbers and verdicts."""
    held = json.loads(gzip.decompress(path.read_bytes()))
    for doc in held:
        text, language = doc["text"], doc["language"]
        if language in CODES:
            doc["words"] = split_into_words(text, CODES[language])
            doc["numbers"] = numbers(text, CODES[language])
            doc["verdicts"] = {chain: verdict(chain, text)[0] for chain in CHAINS}
            doc["c4"] = verdict("c4/datatrove", text)[1]
            doc["c4_any_end"] = C4_ANY_END(text)
    path.write_bytes(gzip.compress(json.dumps(held, ensure_ascii=False).encode(), mtime=0))


def C4_ANY_END(text: str) -> str:  # noqa: N802
    """Return the text as C4 leaves it where any line end will do, "" if it drops the document."""
    doc = Document(text=text, id="x")
    kept = C4QualityFilter(filter_no_terminal_punct=False).filter(doc)
    return doc.text if kept is True else ""


def lines(path: Path) -> list[str]:
    """The texts of a JSONL file."""
    data = path.read_bytes()
    data = gzip.decompress(data) if path.suffix == ".gz" else data
    return [json.loads(line)["text"] for line in data.splitlines() if line.strip()]


def mixture(folder: Path, out: Path) -> None:
    """Write {"codes": {reason: letter}, "files": {file: {chain: a letter a line}}}."""
    codes: dict[str, str] = {"": "."}
    files = {}
    for path in sorted(folder.iterdir()):
        files[path.name] = {}
        for chain in CHAINS:
            if chain == "fineweb2/cmn" and "zh" not in path.name:
                continue
            said = [verdict(chain, text)[0] for text in lines(path)]
            for reason in said:
                codes.setdefault(reason, chr(ord("a") + len(codes) - 1) if len(codes) < 27 else chr(38 + len(codes)))
            files[path.name][chain] = "".join(codes[reason] for reason in said)
        print(path.name, flush=True)
    out.write_bytes(gzip.compress(json.dumps({"codes": codes, "files": files}).encode(), mtime=0))


def timed(path: Path) -> None:
    """Print how long each English filter takes, each on its own, and the four in a row, in seconds."""
    texts = lines(path)
    split_into_words("warm up.", "en")
    took = {"documents": len(texts)}
    for chain in ("gopher/datatrove", "c4/datatrove", "fineweb/code"):
        start = time.process_time()
        for text in texts:
            verdict(chain, text)
        took[chain] = time.process_time() - start
    every = [GopherRepetitionFilter(), GopherQualityFilter(), C4QualityFilter(), FineWebQualityFilter()]
    start = time.process_time()
    for text in texts:
        for step in every:
            step.filter(Document(text=text, id="x"))
    took["all four, whatever they say"] = time.process_time() - start
    print(json.dumps(took))


if __name__ == "__main__":
    task, *paths = sys.argv[1:]
    {"documents": documents, "mixture": mixture, "time": timed}[task](*map(Path, paths))
