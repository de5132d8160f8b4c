"""Every error we raise, drawn as one tree.

    PrepError
    ├── BadParameter         a value no run could use
    │   └── UnknownName      a name nobody registered; the message lists the known ones
    ├── BadInput             something read from outside is not what it must be
    │   ├── BadRecord        one record: counted as failed, its neighbours go on
    │   ├── DamagedStream    a compressed file that is cut, corrupt, or followed by something else
    │   └── BadTemplate      a chat template that does not parse, raises, or passes a limit
    ├── BadShard             a stored file disagrees with its manifest or cannot be read
    ├── Unbalanced           the ledger does not add up: a bug, never bad data
    ├── TooManyLost          more failed or dropped than the run allows
    ├── TaskFailed           a task raised, or took its worker down twice
    ├── RunLocked            another process works in this folder
    ├── NoSpace              the disk is full
    ├── StoreFailed          a file system behind an address cannot be reached, or says no
    ├── AcceleratorMismatch  the fast tokenizer gave other ids than the reference
    └── NotebookFailed       a notebook stopped; the message names stage, cell and cause

A message is one line: where, what, got, allowed, what to do. Commands print it and exit non-zero; in a notebook the
same line stands where the traceback would be.
"""

from __future__ import annotations

import difflib
import re
import sys
import traceback
from collections.abc import Iterable


class PrepError(Exception):
    """The root: catch this to catch everything raised on purpose here.

    Examples
    --------
    >>> raise PrepError("pack: nothing to do")
    Traceback (most recent call last):
    prep_lib.errors.PrepError: pack: nothing to do
    """

    def __init__(self, *told: object) -> None:
        super().__init__(*(_bare(text) if isinstance(text, str) and "://" in text else text for text in told))

    def _render_traceback_(self) -> list[str]:
        """Tell IPython what to show: our one line, the traceback folded away behind one call."""
        return [f"{type(self).__name__}: {self}", "  (the whole traceback: prep_lib.errors.last_traceback())"]


def _bare(text: str) -> str:
    """Return a message without what addresses in it tell of who asks: user, password, signature."""
    text = re.sub(r"(?<=://)[^/@\s]+@", "", text)
    return re.sub(r"(https?://[^\s?]*)\?\S*(?i:sign|sig|token|key|credential)\S*", r"\1", text)


class BadParameter(PrepError, ValueError):
    """A value no run could use; refused before any work starts."""


class UnknownName(BadParameter):
    """A name nobody registered; the message lists the known ones and the nearest."""


class BadInput(PrepError):
    """Something read from outside is not what it must be."""


class BadRecord(BadInput):
    """One record that cannot be used.

    The message is the reason, short and without the record's own content, because the ledger counts records by it:
    ``BadRecord("invalid_utf8")``. ``detail`` may say more to a person.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.reason, self.detail = reason, detail

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}" if self.detail else self.reason


class DamagedStream(BadInput):
    """A compressed stream that does not end as it must.

    Parameters
    ----------
    reason : str
        ``cut_stream``: it ends too early; ``corrupt_stream``: it does not unpack, or its checksum is wrong;
        ``bytes_after_stream``: something else stands behind a complete stream.
    detail : str
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason, self.detail = reason, detail

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}"


#: Reasons after which nobody knows how many records are missing.
DAMAGE = ("cut_stream", "corrupt_stream")


class BadTemplate(BadInput):
    """A chat template that does not parse, raises while it renders, or passes a limit."""


class BadShard(PrepError):
    """A stored file disagrees with its manifest, or cannot be read at all."""


class Unbalanced(PrepError):
    """The ledger does not add up. This is a bug of ours, never a property of the data."""


class TooManyLost(PrepError):
    """More records failed or were dropped than the run allows."""


class TaskFailed(PrepError):
    """A task raised, or took its worker down twice while it ran alone."""


class RunLocked(PrepError):
    """Another process works in this folder."""


class NoSpace(PrepError):
    """The disk is full; what was finished is kept and the same command continues."""


class StoreFailed(PrepError):
    """A file system behind an address cannot be reached, or says no; what was finished is kept."""


class AcceleratorMismatch(PrepError):
    """The accelerator gave other ids than the reference; the whole stage must be done again by the reference."""


# ---------------------------------------------------------------- strings inside text


class NotebookFailed(PrepError):
    """A notebook stopped; the message names the notebook, the cell and the cause."""


def unknown(where: str, what: str, got: str, known: Iterable[str]) -> UnknownName:
    """Make the error for a name nobody registered.

    Examples
    --------
    >>> print(unknown("chat/strategy", "strategy", "chatlm", ["alpaca", "chatml"]))
    chat/strategy: unknown strategy 'chatlm'; did you mean 'chatml'? known: alpaca, chatml
    """
    names = sorted(known)
    near = difflib.get_close_matches(got, names, n=1)
    hint = f" did you mean {near[0]!r}?" if near else ""
    return UnknownName(f"{where}: unknown {what} {got!r};{hint} known: {', '.join(names) or 'none'}")


def last_traceback() -> None:
    """Print the traceback of the last error of this session, whole."""
    error = getattr(sys, "last_value", None)
    if error is None:
        print("no error yet")
    else:
        traceback.print_exception(error)
