"""A saved web page is one document; its text is still the page.

    web/en/a.html      Document("web/en/a.html", "<!doctype html>…", source "web/en")
                       meta: format "html", encoding, encoding_by ("bom", "meta", "detected", "default"), replaced
    web/en/b.html.gz   the same

What is no text in any encoding is dropped, as in `plain`; `extract` makes the page a text.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from prep_lib.errors import BadRecord
from prep_lib.files import Span
from prep_lib.record import Document, Drop
from prep_lib.source.encoding import decode
from prep_lib.source.plain import MAX_BYTES, is_text, read_whole, source_of, told


def documents(
    span: Span, *, name: str | None = None, max_bytes: int = MAX_BYTES
) -> Iterator[tuple[str, Document | Drop | BadRecord]]:
    """Yield (id, document), one: the page.

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
    >>> path = pathlib.Path(tempfile.mkdtemp(), "a.html")
    >>> _ = path.write_bytes('<meta charset="shift_jis"><p>海の本'.encode("cp932"))
    >>> [(place, found.text[-3:], found.meta) for place, found in documents(Span(str(path)))]
    [('a.html', '海の本', {'format': 'html', 'encoding': 'shift_jis', 'encoding_by': 'meta'})]
    """
    place = os.path.basename(span.path) if name is None else name
    data = read_whole(span.path, max_bytes)
    yield place, page(place, source_of(place), data) if isinstance(data, bytes) else data


def page(place: str, source: str, data: bytes, http: str | None = None) -> Document | Drop:
    """Return a page as a document: decoded, not extracted.

    Parameters
    ----------
    place, source : str
    data : bytes
    http : str or None
        The charset the server named.

    Drops
    -----
    not_text
    """
    found = decode(data, http=http, html=True)
    if not is_text(found):
        return Drop("not_text")
    return Document(place, found.text, source, {"format": "html", **told(found)})
