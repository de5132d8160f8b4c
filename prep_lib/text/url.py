"""Documents judged by where they come from: block lists of hosts, addresses and words of the URL, and of sources.

https://user@Forum.EXAMPLE.com.:443/adult/free?x=1#top
             └ host ───────────┘   └word┘└word┘             one spelling: forum.example.com
block_hosts  example.com           covers forum.example.com, never notexample.com
block_urls   example.com/adult/free?x=1                     without scheme, user, usual port, fragment
block_words  adult                 one is enough            soft_words  free adult    two are needed
allow_hosts  forum.example.com     wins over all of them
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeAlias
from urllib.parse import quote, unquote

from prep_lib.errors import BadInput, BadParameter, BadRecord, PrepError
from prep_lib.files import Span, read_lines
from prep_lib.record import Document, Drop

#: At birth a file's path, entries, or None; afterwards the frozenset of folded entries.
Entries: TypeAlias = Any

#: Where a URL's authority begins. Browsers take any number of slashes behind http and https.
_SCHEME = re.compile(r"https?:/*|[a-z][a-z0-9+.-]*://|//|", re.I)
#: One label or more; the low line is no letter of a host by the standard, and stands in many.
_HOST = re.compile(r"[a-z0-9_][a-z0-9_-]*(\.[a-z0-9_-]+)*")
_WORD = re.compile(r"[^\W_]+")
_COMMENT = re.compile(r"(^|\s)#.*")
#: Whatever may stand in a path or query as it is: all ASCII that can be seen, an escape's percent sign among it.
_PLAIN = "".join(map(chr, range(33, 127)))
#: Ports nobody has to write.
_USUAL = ("", "80", "443")
#: Longest host a name server answers for, characters.
_LONGEST = 253


@dataclass(frozen=True, kw_only=True)
class Url:
    """Drop documents by lists of hosts, URLs, words of URLs and sources; a judge stage.

    Reads ``meta["url"]`` and `source`. A document without a URL (none, or an empty one) passes all lists but that of
    the sources.

    Parameters
    ----------
    block_hosts : path, iterable of str, or None
        Hosts, one a line; each covers its subdomains, label by label. ``example.com``, ``.example.com`` and
        ``*.example.com`` are the same. A whole top-level domain is written with its dot, ``.xxx``: a bare word is
        refused, being a slip in most lists. There is no list of public suffixes: ``co.uk`` covers all of it.
    block_urls : path, iterable of str, or None
        URLs, compared without scheme, user, usual port and fragment.
    block_words : path, iterable of str, or None
        Words; one of them in the URL is enough.
    soft_words : path, iterable of str, or None
        Words of which `soft_needed` different ones are needed.
    block_parts : path, iterable of str, or None
        Letters that may stand inside a word, or reach over its end: looked for in the URL's letters and digits alone.
        What is written without blanks (Chinese) belongs here.
    allow_hosts, allow_urls : path, iterable of str, or None
        Win over every rule of the URL.
    block_sources : path, iterable of str, or None
        Sources by their whole name. No URL is needed, and none is allowed against it.
    soft_needed : int, words
    keep_malformed : bool
        True: a URL without a usable host is judged by its words alone. False: the document is dropped.

    Raises
    ------
    BadParameter
        If an entry is not what its list holds, or `soft_needed` is below 1.
    BadInput
        If a file cannot be read, or one of its lines is no entry; the message says which line.

    Notes
    -----
    A file is UTF-8, plain, .gz or .zst, one entry a line; ``#`` at the beginning or behind a blank begins a comment.
    Files are read when the stage is made, and the stage holds what they said.

    Case, percent escapes and punycode are folded alike in lists and URLs (IDNA 2003, as Python has it: ``ß`` is
    ``ss``). Words are cut at everything that is no letter and no digit.

    Drops
    -----
    ``url_host``, ``url_exact``, ``url_word``, ``url_soft_words`` (how many stood in it, how many are allowed),
    ``url_part``, ``url_malformed``, ``source``. `find` also says which entry it was.

    Source
    ------
    Hosts, URLs, hard words, soft words from two on, and parts of words, as FineWeb filtered (datatrove 0.10,
    ``url_filter.py``; RefinedWeb, Penedo et al. 2023). Theirs leaves case and escapes as they are, and stops at a
    document without URL.

    Examples
    --------
    >>> stage = Url(block_hosts=["example.com"], soft_words=["free", "adult"], allow_hosts=["docs.example.com"])
    >>> urls = ["http://a.Example.com:80/", "https://docs.example.com/x", "b.org/free-adult", "b.org/free"]
    >>> [stage.judge(Document("1", "", meta={"url": url})) for url in urls]
    [Drop(reason='url_host'), None, Drop(reason='url_soft_words', value=2, limit=1), None]
    """

    name: ClassVar[str] = "url"

    block_hosts: Entries = field(default=None, repr=False)
    block_urls: Entries = field(default=None, repr=False)
    block_words: Entries = field(default=None, repr=False)
    soft_words: Entries = field(default=None, repr=False)
    block_parts: Entries = field(default=None, repr=False)
    allow_hosts: Entries = field(default=None, repr=False)
    allow_urls: Entries = field(default=None, repr=False)
    block_sources: Entries = field(default=None, repr=False)
    soft_needed: int = 2
    keep_malformed: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.soft_needed, int) or self.soft_needed < 1:
            raise BadParameter(f"text/url: soft_needed must be a whole number >= 1, got {self.soft_needed!r}")
        for name, kind in _LISTS.items():
            object.__setattr__(self, name, frozenset(_read(name, getattr(self, name), kind)))

    def judge(self, doc: Document) -> Drop | None:
        """Return None to keep the document."""
        found = self.find(doc)
        return found.drop if found else None

    def find(self, doc: Document) -> Found | None:
        """Return the verdict and the entry that led to it; None: the document is kept."""
        if doc.source in self.block_sources:
            return Found(Drop("source"), doc.source)
        url = doc.meta.get("url")
        if url is None or url == "":
            return None
        address = fold_url(url) if isinstance(url, str) else None
        if address is None:
            return self._malformed(url)
        if _covering(address.host, self.allow_hosts) or address.exact in self.allow_urls:
            return None
        if host := _covering(address.host, self.block_hosts):
            return Found(Drop("url_host"), host)
        if address.exact in self.block_urls:
            return Found(Drop("url_exact"), address.exact)
        return self._by_words(url)

    def _malformed(self, url: object) -> Found | None:
        if not self.keep_malformed:
            return Found(Drop("url_malformed"), "")
        return self._by_words(url) if isinstance(url, str) else None

    def _by_words(self, url: str) -> Found | None:
        if not (self.block_words or self.soft_words or self.block_parts):
            return None
        words = url_words(url)
        hard, soft = self.block_words.intersection(words), self.soft_words.intersection(words)
        if hard:
            return Found(Drop("url_word"), min(hard))
        if len(soft) >= self.soft_needed:
            return Found(Drop("url_soft_words", len(soft), self.soft_needed - 1), " ".join(sorted(soft)))
        letters = "".join(words)
        parts = [part for part in self.block_parts if part in letters]
        return Found(Drop("url_part"), min(parts)) if parts else None


class Found(NamedTuple):
    """A verdict and the entry of the list that led to it; empty where there is none."""

    drop: Drop
    entry: str


class Address(NamedTuple):
    """The host of a URL, and the URL without what does not matter, both in one spelling."""

    host: str
    exact: str


def fold_url(url: str) -> Address | None:
    """Return a URL's host and its one spelling; None if there is no host in it.

    The scheme may be missing. Read as browsers do: a backslash is a slash, tabs and line feeds are not there.

    Examples
    --------
    >>> fold_url("HTTP://me:pw@Example.COM.:80/a%c3%a4/b?q#top")
    Address(host='example.com', exact='example.com/a%C3%A4/b?q')
    >>> fold_url("https://bücher.example:8080")
    Address(host='xn--bcher-kva.example', exact='xn--bcher-kva.example:8080/')
    >>> fold_url("http://exa mple.com/") is fold_url("javascript:void(0)") is None
    True
    """
    url = re.sub(r"[\t\r\n]", "", url).strip().replace("\\", "/")
    behind = url[_SCHEME.match(url).end() :]  # type: ignore[union-attr]  # it also matches nothing
    authority = re.split("[/?#]", behind, maxsplit=1)[0]
    parts = re.fullmatch(r"(\[.*\]|[^:\[\]]*)(?::(\d*))?", authority.rpartition("@")[2])
    host = fold_host(parts[1]) if parts else None
    if host is None or parts is None:
        return None
    port = (parts[2] or "").lstrip("0")
    tail = behind[len(authority) :].split("#")[0]
    tail = tail if tail.startswith("/") else "/" + tail
    tail = re.sub("%[0-9a-fA-F]{2}", lambda escape: escape[0].upper(), quote(tail, safe=_PLAIN, errors="replace"))
    return Address(host, host + (f":{port}" if port not in _USUAL else "") + tail)


def fold_host(host: str) -> str | None:
    """Return the one spelling of a host: lower case, punycode, no dot at the end; None for what is no host.

    Examples
    --------
    >>> fold_host("Пример.РФ"), fold_host("EXAMPLE.com."), fold_host("[::1]"), fold_host("a..b")
    ('xn--e1afmkfd.xn--p1ai', 'example.com', '::1', None)
    """
    if host.startswith("["):
        return _ip6(host)
    host = unquote(host) if "%" in host else host
    if len(host) > _LONGEST + 1:
        return None
    try:
        host = host.encode("idna").decode().lower().removesuffix(".")
    except UnicodeError:  # a label of no or too many characters, or what stands in no host
        return None
    return host if len(host) <= _LONGEST and _HOST.fullmatch(host) else None


def _ip6(host: str) -> str | None:
    try:
        return ipaddress.IPv6Address(host[1:-1]).compressed
    except ValueError:
        return None


def url_words(url: str) -> list[str]:
    """Return the words of a URL in order: runs of letters and digits, escapes and punycode undone, case folded.

    Examples
    --------
    >>> url_words("https://xn--bcher-kva.example/Fr%C3%BChling_2024")
    ['https', 'bücher', 'example', 'frühling', '2024']
    """
    url = re.sub(r"xn--[a-z0-9-]+", _unpunycode, url, flags=re.I)
    return _WORD.findall(unquote(url).casefold())


def _unpunycode(label: re.Match[str]) -> str:
    try:
        return label[0].encode().decode("idna")
    except UnicodeError:
        return label[0]


def _covering(host: str, listed: frozenset[str]) -> str | None:
    """Return the entry that covers a host: itself, or what stands behind one of its dots."""
    if host in listed:
        return host
    if ":" in host or host.rpartition(".")[2].isdigit():  # an IP address has no subdomains
        return None
    while listed and "." in host:
        host = host.partition(".")[2]
        if host in listed:
            return host
    return f".{host}" if f".{host}" in listed else None


# The lists


def _host_entry(line: str) -> str | None:
    host = fold_host(line.removeprefix("*").removeprefix(".") if not line.startswith("[") else line)
    if host is None or "." in host or ":" in host:
        return host
    return f".{host}" if line.startswith((".", "*.")) else None


def _url_entry(line: str) -> str | None:
    address = fold_url(line)
    return address.exact if address else None


def _word_entry(line: str) -> str | None:
    words = _WORD.findall(line.casefold())
    return words[0] if len(words) == 1 and words[0] == line.casefold() else None


def _part_entry(line: str) -> str | None:
    return "".join(_WORD.findall(line.casefold())) or None


class _Kind(NamedTuple):
    """What stands in a list: how an entry is folded, None for none; and what it looks like."""

    fold: Callable[[str], str | None]
    said: str


_HOSTS = _Kind(_host_entry, "a host, such as example.com (a whole top-level domain is written .com)")
_URLS = _Kind(_url_entry, "a URL, such as example.com/page")
_WORDS = _Kind(_word_entry, "one word of letters and digits")
_LISTS = {
    "block_hosts": _HOSTS, "block_urls": _URLS, "block_words": _WORDS, "soft_words": _WORDS,
    "block_parts": _Kind(_part_entry, "letters or digits"), "allow_hosts": _HOSTS, "allow_urls": _URLS,
    "block_sources": _Kind(lambda line: line, "a source"),
}  # fmt: skip


def _read(name: str, given: Entries, kind: _Kind) -> Iterator[str]:
    """Yield the folded entries of a list, wherever it comes from."""
    for place, line in _lines(name, given):
        if (entry := kind.fold(line)) is None:
            raise _bad_entry(name, place, line, kind)
        yield entry


def _bad_entry(name: str, place: str, line: str, kind: _Kind) -> PrepError:
    shown = repr(line if len(line) <= 60 else line[:60] + "…")
    where = f"line {place} of {name}" if place else f"an entry of {name}"
    error = BadInput if place else BadParameter
    return error(f"text/url: {where} is {shown}; it must be {kind.said}; correct it, or put # before it")


def _lines(name: str, given: Entries) -> Iterator[tuple[str, str]]:
    """Yield each entry as written with its place: number and file, empty for one given by itself."""
    if given is None or given == "":
        return
    if isinstance(given, str | Path):
        yield from _file_lines(name, str(given))
        return
    entries: list[Any] = list(given) if isinstance(given, Iterable) else [None]
    if not all(isinstance(entry, str) and entry.strip() for entry in entries):
        raise BadParameter(f"text/url: {name} must be a file's path, a list of texts, or None")
    yield from (("", entry.strip()) for entry in entries)


def _file_lines(name: str, path: str) -> Iterator[tuple[str, str]]:
    try:
        for number, raw in read_lines(Span(path)):
            if isinstance(raw, BadRecord):
                raise BadInput(f"text/url: line {number:,} of {name} ({path}) cannot be read: {raw}")
            if line := _COMMENT.sub("", raw.decode()).strip():
                yield f"{number:,} ({path})", line
    except OSError as error:
        raise BadInput(f"text/url: cannot read {name} ({path}): {error.strerror or error}") from error
    except UnicodeDecodeError:
        raise BadInput(f"text/url: line {number:,} of {name} ({path}) is not UTF-8; save the list as UTF-8") from None
