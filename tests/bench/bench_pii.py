"""Personal data: all kinds beside datatrove's two on the same documents, and precision and recall of each kind.

    PREP_BENCH_TEXTS=folder of .jsonl, .jsonl.gz          else the built-in corpus
    PREP_BENCH_DATATROVE=/tmp/datatrove/bin/python        else without it; see peers/datatrove.txt

Times are CPU seconds, of rounds that take turns where both run here; documents are new in every round, because a stage
of a pipeline has to encode them. Precision and recall are of made-up values of each kind in sentences, English and
Chinese, among values that only look like one; `tests/prep_lib/text/test_pii.py` tests with the same.
"""

from __future__ import annotations

import gzip
import ipaddress
import json
import os
import random
import statistics
import string
import subprocess
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from prep_lib import corpus
from prep_lib.record import Document
from prep_lib.text.pii import KINDS, Pii, find, luhn

PEER = Path(__file__).parent / "peers" / "pii_datatrove.py"
RUNS, DOCUMENTS, EACH = 5, 2000, 40

#: A value stands in one of these; Chinese leaves no blank beside it.
FRAMES = (
    "{}", "It is {}.", "see ({}) for more", "请记录{}，谢谢", "<td>{}</td>", "first line\n{}\nlast line",
    "one, {}, three", '{{"note": "{}"}}', "他说：{}。", "> {} <", "the value {} was written down",
)  # fmt: skip

#: How numbers are written abroad; N is any digit but 0, # any digit.
PHONES = (
    "+1 N## N## ####", "+1N##N######", "+1 (N##) N##-####", "+1-N##-N##-####", "+44 20 N### ####",
    "+44 (0)20 N### ####", "+49 30 N#####", "+49 (0)89 N###-##", "+33 1 N# ## ## ##", "+34 9## ## ## ##",
    "+39 06 N### ####", "+7 495 N##-##-##",
    "+81 3 N### ####", "+82 2 N## ####", "+86 10 N### ####", "+91 9#### #####", "+61 2 N### ####", "+55 11 9####-####",
    "+852 N### ####", "+971 4 N## ####", "+41 44 N## ## ##", "+420 2## ### ###", "+65 6### ####", "+1.N##.N##.####",
)  # fmt: skip

CARDS = {"4": 16, "51": 16, "2221": 16, "34": 15, "37": 15, "6011": 16, "36": 14, "3528": 16, "62": 19, "2200": 16}
IBANS = {"DE": 22, "FR": 27, "GB": 22, "NL": 18, "NO": 15, "ES": 24, "PL": 28, "MT": 31, "CH": 21, "SE": 24}


def positives(seed: int = 0) -> Iterator[tuple[str, str]]:
    """Yield (kind, value), `EACH` of a kind.

    Examples
    --------
    >>> len(list(positives())) == EACH * len(KINDS)
    True
    """
    rng = random.Random(seed)
    for _ in range(EACH):
        for kind, make in POSITIVE.items():
            yield kind, make(rng)


def _digits(rng: random.Random, count: int) -> str:
    return "".join(rng.choices(string.digits, k=count))


def _letters(rng: random.Random, count: int, letters: str = string.ascii_letters + string.digits) -> str:
    # A digit among them, as in every key long enough.
    return "".join(rng.choices(letters, k=count - 1)) + next(letter for letter in letters[::-1] if letter.isdigit())


def _email(rng: random.Random) -> str:
    local = rng.choice(["kim", "j.doe", "anna-marie", "x_y", "sales+web", "li.lei88", "O'Neil", "k", "müller", "иван"])
    host = rng.choice(
        ["mail.example", "a.b.co.uk", "qq.com", "163.com", "uni-x.de", "例.example", "host.museum", "b.cn"]
    )
    return f"{local}@{host.replace('例', 'xn--fsq')}"


def _phone(rng: random.Random) -> str:
    made = "".join(
        rng.choice("23456789") if c == "N" else rng.choice(string.digits) if c == "#" else c for c in rng.choice(PHONES)
    )
    return made.replace(" ", "\u00a0") if rng.random() < 0.1 else made


def _ip(rng: random.Random) -> str:
    if rng.random() < 0.25:
        groups = [f"{rng.randrange(0x2400, 0x2C00):x}", *(f"{rng.randrange(1, 65536):x}" for _ in range(7))]
        return ":".join(groups) if rng.random() < 0.5 else ":".join(groups[:3]) + "::" + groups[3]
    while True:
        address = ipaddress.IPv4Address(rng.getrandbits(32))
        if address.is_global and not address.is_multicast and min(address.packed) > 0 and max(address.packed) >= 20:
            return str(address)


def _card(rng: random.Random) -> str:
    first, size = rng.choice(list(CARDS.items()))
    body = first + _digits(rng, size - 1 - len(first))
    number = next(body + digit for digit in string.digits if luhn(body + digit))
    if size == 16 and rng.random() < 0.6:
        return rng.choice(" -").join(number[at : at + 4] for at in range(0, 16, 4))
    return f"{number[:4]} {number[4:10]} {number[10:]}" if size == 15 and rng.random() < 0.5 else number


def _iban(rng: random.Random) -> str:
    country, size = rng.choice(list(IBANS.items()))
    body = _digits(rng, size - 4)
    check = 98 - int("".join(str(int(letter, 36)) for letter in body + country + "00")) % 97
    whole = f"{country}{check:02}{body}"
    return " ".join(whole[at : at + 4] for at in range(0, size, 4)) if rng.random() < 0.5 else whole


def _cn_mobile(rng: random.Random) -> str:
    number = rng.choice(["13", "15", "18"]) + rng.choice("356789") + _digits(rng, 8)
    joint = rng.choice(["", "", " ", "-"])
    written = joint.join((number[:3], number[3:7], number[7:]))
    if rng.random() < 0.2:
        return written.translate({ord(digit): ord(digit) + 0xFEE0 for digit in string.digits})
    return rng.choice(["", "", "+86", "+86 ", "86-", "0086 "]) + written


def _cn_id(rng: random.Random) -> str:
    born = f"{rng.randrange(1920, 2020)}{rng.randrange(1, 13):02}{rng.randrange(1, 29):02}"
    body = rng.choice(["110101", "310115", "440306", "650102"]) + born + _digits(rng, 3)
    check = sum(2 ** (17 - at) % 11 * int(digit) for at, digit in enumerate(body)) % 11
    return body + rng.choice(["10X98765432", "10x98765432"])[check]


def _ssn(rng: random.Random) -> str:
    return f"{rng.randrange(1, 666):03}-{rng.randrange(1, 100):02}-{rng.randrange(1, 10000):04}"


def _key(rng: random.Random) -> str:
    capitals = string.ascii_uppercase + string.digits
    return rng.choice([
        "AKIA" + _letters(rng, 16, capitals), "ghp_" + _letters(rng, 36), "AIza" + _letters(rng, 35),
        f"xoxb-{_digits(rng, 12)}-{_letters(rng, 24)}", "sk_live_" + _letters(rng, 24), "sk-" + _letters(rng, 48),
        "sk-proj-" + _letters(rng, 60), "hf_" + _letters(rng, 34), "glpat-" + _letters(rng, 20),
        f"eyJhbGciOiJIUzI1NiJ9.eyJ{_letters(rng, 30)}.{_letters(rng, 43)}",
    ])  # fmt: skip


def _pem(rng: random.Random) -> str:
    kind = rng.choice(["", "RSA ", "EC ", "OPENSSH "])
    lines = "\n".join(_letters(rng, 64) for _ in range(rng.randrange(1, 20)))
    return f"-----BEGIN {kind}PRIVATE KEY-----\n{lines}\n-----END {kind}PRIVATE KEY-----"


POSITIVE: dict[str, Callable[[random.Random], str]] = {
    "email": _email, "phone": _phone, "ip": _ip, "card": _card, "iban": _iban, "cn_mobile": _cn_mobile, "cn_id": _cn_id,
    "ssn": _ssn, "key": _key, "pem": _pem,
}  # fmt: skip


def negatives(seed: int = 0) -> Iterator[tuple[str, str]]:
    """Yield (family, value) of what is nobody's, `EACH` of a family.

    Examples
    --------
    >>> len(list(negatives())) == EACH * len(NEGATIVE)
    True
    """
    rng = random.Random(seed)
    for _ in range(EACH):
        for family, make in NEGATIVE.items():
            yield family, make(rng)


def _hex(rng: random.Random, count: int) -> str:
    return "".join(rng.choices("0123456789abcdef", k=count))


def _isbn13(rng: random.Random) -> str:
    body = "978" + _digits(rng, 9)
    check = -sum(int(digit) * (3 if at % 2 else 1) for at, digit in enumerate(body)) % 10
    whole = f"{body}{check}"
    return rng.choice([whole, f"978-{whole[3]}-{whole[4:8]}-{whole[8:12]}-{whole[12]}"])


def _float(rng: random.Random) -> str:
    value = rng.choice([rng.random(), rng.uniform(-1e3, 1e3), rng.random() * 1e-9, rng.uniform(0, 1e16)])
    return rng.choice([repr(value), f"{value:.15E}", f"{value:,.3f}", f"-{abs(value)!r}"])


def _version(rng: random.Random) -> str:
    parts = ".".join(str(rng.randrange(0, 100)) for _ in range(4))
    return rng.choice(["v{}", "version {}", "release {}", "lib-{}.tar.gz", "App/{}", "pkg=={}", "Version: {}", "版本{}",
                       "<version>{}</version>", 'AssemblyVersion("{}")', "upgrade from 2.0.0.1 to {}", "Firefox {}",
                       "升级到{}", "{}版", "pkg >= {}", "{} and later",
                       "firmware {}", "{}-beta", "{}-1ubuntu2", "from version 2.0.0.1 to {}",
                       ]).format(parts)  # fmt: skip


def _section(rng: random.Random) -> str:
    parts = [rng.randrange(1, 20) for _ in range(rng.choice([4, 4, 5, 6]))]
    return rng.choice(["{}", "section {}", "§ {}", "第{}条", "{} Scope", "see {} below"]).format(
        ".".join(map(str, parts))
    )


def _private(rng: random.Random) -> str:
    low = rng.randrange(1, 255)
    return rng.choice([f"10.{low}.3.{low}", f"192.168.{low}.9", f"172.{16 + low % 16}.0.{low}", f"127.0.0.{low}",
                       f"203.0.113.{low}", f"169.254.{low}.1", f"100.{64 + low % 64}.7.{low}", f"2001:db8::{low:x}:1",
                       f"fe80::1:{low:x}", f"239.1.2.{low}", f"300.{low}.1.1", f"198.51.100.{low}"])  # fmt: skip


def _part(rng: random.Random) -> str:
    return rng.choice([
        f"SKU-{_digits(rng, 11)}", f"PN{_digits(rng, 13)}", f"{_digits(rng, 3)}-{_digits(rng, 3)}-{_digits(rng, 4)}-A",
        f"A{_digits(rng, 3)}-{_digits(rng, 2)}-{_digits(rng, 4)}", f"INV_{_digits(rng, 16)}", f"{_digits(rng, 12)}",
        f"{_digits(rng, 8)}", f"1Z{_letters(rng, 16, string.ascii_uppercase + string.digits)}", f"x{_digits(rng, 16)}y",
    ])  # fmt: skip


def _wrong(rng: random.Random) -> str:
    """A number of the right form with the wrong check digit."""
    make = rng.choice([_card, _iban, _cn_id])
    value = make(rng)
    last = value[-1]
    return value[:-1] + ("7" if last in "Xx" else str((int(last) + 1) % 10))


def _handle(rng: random.Random) -> str:
    return rng.choice(["icon@2x.png", "@property.setter", "git@github.com:a/b.git", "lodash@4.17.21", "a @ b.T", "x@y",
                       "see @kim.", "A@B.sum(0)", "foo@bar", "m@x.reshape(2, 3)", "@user.name",
                       "x@self.weight + b", "y = x@W.proj", "q@k.transpose", "x@w.to(device)",
                       "hls@0.8.9.js"])  # fmt: skip


def _date(rng: random.Random) -> str:
    frame = rng.choice(["2021-{0}-0{1} 10:15:59", "2021{0}0{1}101559", "0{1}.{0}.2021", "2019-{0}/2021-{0}"])
    return frame.format(rng.randrange(10, 13), rng.randrange(1, 10))


def _drawing(rng: random.Random) -> str:
    numbers = [".".join(str(rng.randrange(99)) for _ in range(4)) + f" {rng.randrange(9)}" for _ in range(3)]
    return f"M1 2 {' '.join(numbers)} 3z"


def _mobile_like(rng: random.Random) -> str:
    return f"1{rng.choice('358')}{_digits(rng, 9)}"


def _in_url(rng: random.Random) -> str:
    number = rng.choice("4513") + _digits(rng, rng.choice([10, 15]))
    return f"https://site.example/{rng.choice(['item/{}/x.html', '?id={}', 'a-{}-b', '{}.jpg'])}".format(number)


#: What looks like a number to call and is none.
PLUS = (
    "i+1", "UTC+0800", "C++11 201103", "+20 000 000", "a+8613812345678", "@@ -1,5 +1,7 @@", "+12345678.90",
    "+0 123 456 789",
)  # fmt: skip

NEGATIVE: dict[str, Callable[[random.Random], str]] = {
    "sha1": lambda rng: _hex(rng, 40),
    "sha256": lambda rng: _hex(rng, 64),
    "md5": lambda rng: _hex(rng, 32).upper(),
    "uuid": lambda rng: str(uuid.UUID(int=rng.getrandbits(128))),
    "uuid of digits": lambda rng: "-".join(_digits(rng, n) for n in (8, 4, 4, 4, 12)),
    "float": _float,
    "version": _version,
    "section": _section,
    "isbn": _isbn13,
    "part number": _part,
    "wrong check digit": _wrong,
    "closed address": _private,
    "handle": _handle,
    "time": lambda rng: f"{rng.randrange(24):02}:{rng.randrange(60):02}:{rng.randrange(60):02}.{_digits(rng, 6)}",
    "timestamp": lambda rng: rng.choice(["16", "17"]) + _digits(rng, rng.choice([8, 11, 14])),
    "date": _date,
    "coordinates": lambda rng: f"+{rng.uniform(10, 80):.6f}, -{rng.uniform(10, 170):.7f}",
    "coordinates in one": lambda rng: f"+{rng.uniform(10, 80):.4f}-{rng.uniform(100, 170):.4f}/",
    "amount": lambda rng: rng.choice(["${}", "{} 元", "€{}", "{}%"]).format(_mobile_like(rng)),
    "thousands": lambda rng: f"{rng.randrange(10**15):,}",
    "drawing": _drawing,
    "table": lambda rng: " ".join(_digits(rng, 4) for _ in range(8)),
    "url": _in_url,
    "mac": lambda rng: ":".join(_hex(rng, 2) for _ in range(6)),
    "sum": lambda rng: f"x + {_mobile_like(rng)}*y - 2",
    "number too long": lambda rng: _digits(rng, rng.choice([20, 24, 40])),
    "plus": lambda rng: rng.choice(PLUS),
}


def framed(values: Iterator[tuple[str, str]], seed: int = 0) -> Iterator[tuple[str, str, int, str]]:
    """Yield (kind or family, text, where the value begins, value): each value in a sentence."""
    rng = random.Random(seed)
    for name, value in values:
        frame = rng.choice(FRAMES)
        text = frame.format(value)
        yield name, text, text.index(value), value


def quality() -> tuple[dict[str, tuple[float, float]], Counter[tuple[str, str]]]:
    """Return (precision, recall) by kind, and the false finds by (kind, family)."""
    hit, made, said, false = Counter[str](), Counter[str](), Counter[str](), Counter[tuple[str, str]]()
    for kind, text, start, value in framed(positives()):
        made[kind] += 1
        for found in find(text):
            right = (found.kind, found.start, found.stop) == (kind, start, start + len(value))
            said[found.kind] += 1
            hit[kind] += right
            false[found.kind, kind] += not right
    for family, text, _, _ in framed(negatives()):
        for found in find(text):
            said[found.kind] += 1
            false[found.kind, family] += 1
    return {kind: (hit[kind] / max(1, said[kind]), hit[kind] / made[kind]) for kind in KINDS}, +false


def texts() -> list[str]:
    """Return the texts timed."""
    folder = os.environ.get("PREP_BENCH_TEXTS")
    if not folder:
        return [document.text for document in corpus.documents(DOCUMENTS)]
    out = []
    for path in sorted(Path(folder).glob("*.jsonl*")):
        data = path.read_bytes()
        lines = (gzip.decompress(data) if path.suffix == ".gz" else data).splitlines()
        out += [json.loads(line)["text"] for line in lines if line.strip()]
    return out


def ours(texts: list[str], stage: Pii) -> float:
    """Return the CPU seconds of a round, the median."""
    took = []
    for _ in range(RUNS + 1):
        docs = [Document("x", text) for text in texts]
        start = time.process_time()
        for doc in docs:
            stage.map(doc)
        took.append(time.process_time() - start)
    return statistics.median(took[1:])


#: Finds that free each other one by one: each stands against the next, until it is masked.
CHAIN = "+14155552671"


def chained() -> float:
    """Return CPU seconds of four times as many finds in a row over those of so many."""
    took = []
    for count in (2000, 8000):
        start = time.process_time()
        assert len(find(CHAIN * count)) == count
        took.append(time.process_time() - start)
    return took[1] / took[0]


def _ask(texts: list[str], *arguments: str) -> list[Any] | None:
    """Return what datatrove's formatter answers, a value a line; None without its environment."""
    python = os.environ.get("PREP_BENCH_DATATROVE")
    if not python:
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "texts.jsonl")
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
        done = subprocess.run([python, str(PEER), str(path), *arguments], stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def theirs() -> Iterator[dict[str, Any]]:
    """Yield what datatrove's two kinds find of the made-up e-mails and addresses, and of what only looks like it."""
    values = [each for each in framed(positives()) if each[0] in ("email", "ip")] + list(framed(negatives()))
    made = _ask([text for _, text, _, _ in values], "texts")
    if made is None:
        return
    for kind in ("email", "ip"):
        gone = [value not in after for (name, _, _, value), after in zip(values, made, strict=True) if name == kind]
        yield _row(f"personal data, datatrove, {kind}: recall", sum(gone) / len(gone), "share", None, 1)
    false = [after != text for (name, text, _, _), after in zip(values, made, strict=True) if name in NEGATIVE]
    yield _row(f"personal data, datatrove: changed of {len(false):,} texts without any", sum(false), "texts", None, 1)


def run() -> list[dict[str, Any]]:
    """Measure."""
    sample = texts()
    megabytes, took = sum(len(text.encode()) for text in sample) / 1e6, ours(sample, Pii())
    rows = [
        _row("personal data, all kinds", megabytes / took, "MB/s", ">= 100", RUNS),
        _row("personal data, e-mail and IP", megabytes / ours(sample, Pii(kinds=("email", "ip"))), "MB/s", None, RUNS),
    ]
    if peer := _ask(sample):
        rows.append(_row("personal data, all kinds beside datatrove's two", peer[-1] / took, "x", ">= 1", RUNS))
    rows.append(_row("personal data, four times as many finds in a row", chained(), "x", "<= 5", 1))
    rows += theirs()
    scores, _ = quality()
    for kind, (precision, recall) in scores.items():
        rows.append(_row(f"personal data, {kind}: precision", precision, "share", ">= 0.99", 1))
        rows.append(_row(f"personal data, {kind}: recall", recall, "share", ">= 0.95", 1))
    return rows


def _row(name: str, value: float, unit: str, goal: str | None, runs: int) -> dict[str, Any]:
    return {"name": name, "value": value, "unit": unit, "goal": goal, "runs": runs}


def main() -> None:
    """Print one line a figure, and what was found that nobody meant."""
    for row in run():
        print(f"{row['name']}: {row['value']:.4g} {row['unit']} (goal {row['goal'] or 'none'}; {row['runs']} runs)")
    for (kind, family), count in quality()[1].most_common():
        print(f"{kind} seen in {family}: {count}")


if __name__ == "__main__":
    main()
