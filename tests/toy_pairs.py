"""A world of near duplicates a reader can hold in the head, and how it is decided."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from prep_lib.decide import decide_files
from prep_lib.text.exact_dedup import ExactDedup
from prep_lib.text.near_dedup import NearDedup

STAGE = NearDedup(shingle="word2", num_perm=64, recall=0.95)


class World(NamedTuple):
    """What was decided, about which files, by which stage."""

    folder: Path
    files: Path
    stage: NearDedup


def words(name: str, count: int) -> str:
    return " ".join(f"{name}{chr(97 + at // 26)}{chr(97 + at % 26)}" for at in range(count))


def decided(folder: Path, records: list[tuple[str, str]], stage: NearDedup = STAGE) -> World:
    """Decide about (source, text), a line each."""
    files = folder / "a.jsonl"
    lines = (json.dumps({"source": source, "text": text}, ensure_ascii=False) + "\n" for source, text in records)
    files.write_text("".join(lines), "utf-8")
    decide_files([ExactDedup(), stage], files, folder / "out", engine="inline", max_dropped=1.0)
    return World(folder / "out", files, stage)


#: a.jsonl#L1 and L2 are 0.95 alike, L3 and L4 are 0.73, L5 and L6 one text; orders differ in their digits alone.
RECORDS = [
    ("web", words("a", 40)),
    ("web", words("a", 39) + " other"),
    ("web", words("b", 40)),
    ("web", words("b", 34) + " " + words("c", 6)),
    ("web", "the same"),
    ("web", "the same"),
    *[("shop", f"{words('d', 40)} order {number}") for number in (7, 12, 123)],
    ("law", "第一条 " + "为了科学有效地组织统计工作保障统计资料的真实性准确性完整性和及时性"),
    ("law", "第二条 " + "为了科学有效地组织统计工作保障统计资料的真实性准确性完整性和及时性"),
]
