"""A text file is one document, whatever its encoding.

notes/a.txt     Document("notes/a.txt", "…", source "notes")        meta: encoding, encoding_by, replaced if any
notes/b.txt.gz  the same; cut or corrupt: BadRecord damaged_file
notes/c.txt     bytes that are no text in any encoding: Drop not_text        too long: Drop too_large
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from typing import Any

from prep_lib.errors import BadRecord, DamagedStream
from prep_lib.files import Span, open_bytes
from prep_lib.record import Document, Drop
from prep_lib.source.encoding import Decoded, decode

#: Bytes of a file that are read, unpacked: a longer one is rather a data set of its own.
MAX_BYTES = 32 * 2**20


def documents(
    span: Span, *, name: str | None = None, max_bytes: int = MAX_BYTES
) -> Iterator[tuple[str, Document | Drop | BadRecord]]:
    """Yield (id, document), one: the file.

    Parameters
    ----------
    name : str or None
        The id; its folder is the source. None: the file's name.
    max_bytes : int, unpacked
        Longer files are not read to their end.

    Yields
    ------
    (str, Document or Drop or BadRecord)

    Drops
    -----
    too_large, not_text

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "a.txt")
    >>> _ = path.write_bytes("Größe".encode("cp1252"))
    >>> [(place, found.text, found.meta) for place, found in documents(Span(str(path)), name="notes/a.txt")]
    [('notes/a.txt', 'Größe', {'encoding': 'windows-1252', 'encoding_by': 'detected'})]
    """
    place = os.path.basename(span.path) if name is None else name
    data = read_whole(span.path, max_bytes)
    if not isinstance(data, bytes):
        yield place, data
        return
    found = decode(data)
    yield place, Document(place, found.text, source_of(place), told(found)) if is_text(found) else Drop("not_text")


def read_whole(path: str, max_bytes: int) -> bytes | Drop | BadRecord:
    """Return the content of a file, or why it cannot be used."""
    try:
        with contextlib.closing(open_bytes(path)) as file:
            data = file.read(max_bytes + 1)
    except DamagedStream as damage:
        # By a name of its own: here everybody knows how many documents are missing, one.
        return BadRecord("damaged_file", str(damage))
    except OSError as error:
        return BadRecord("unreadable_file", error.strerror or type(error).__name__)
    return data if len(data) <= max_bytes else Drop("too_large", len(data), max_bytes)


def source_of(place: str) -> str:
    """Return the folder a file stands in, which many files share, or else its name.

    Examples
    --------
    >>> source_of("web/en/a.html"), source_of("a.html")
    ('web/en', 'a.html')
    """
    return os.path.dirname(place) or place


def told(found: Decoded) -> dict[str, Any]:
    """Return what a document's meta tells of its encoding."""
    meta: dict[str, Any] = {"encoding": found.encoding, "encoding_by": found.by}
    return {**meta, "replaced": found.replaced} if found.replaced else meta


#: What no text has in numbers: control characters but tab, line ends, form feed and escape, and broken places.
_STRANGE = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\ufffd]")


def is_text(found: Decoded) -> bool:
    """Tell text from what decoded only by chance: images and archives are full of control characters.

    Examples
    --------
    >>> is_text(decode(b"plain")), is_text(decode(bytes(range(256)) * 4))
    (True, False)
    """
    head = found.text[:20_000]
    return len(_STRANGE.findall(head)) * 20 <= len(head)
