"""Small npz files of any fields, and what a shuffle must keep of them.

tables()        fields of any dtype and shape with one number of rows
split(table)    the same rows in several files
rows_of(paths)  every row of some files as bytes, all fields together, sorted
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

Table = dict[str, np.ndarray]

DTYPES = st.sampled_from(
    ["<i2", "|u1", "<i8", ">i4", "<f4", "?", "<U3", "|S2", "<M8[s]", "<c8", "<f2", [("a", "<i2"), ("b", "|u1")]]
)


@st.composite
def tables(draw: Any, least: int = 1, most: int = 9) -> Table:
    """A few fields of any type and shape, with one number of rows."""
    count = draw(st.integers(least, most))
    names = draw(st.lists(st.text(st.characters(exclude_characters="\0/\\."), max_size=4), min_size=1, unique=True))
    shapes = st.tuples() | st.tuples(st.integers(0, 3)) | st.tuples(st.integers(1, 2), st.integers(1, 3))
    out = {}
    for name in names[:4]:
        dtype, shape = np.dtype(draw(DTYPES)), (count, *draw(shapes))
        size = dtype.itemsize * int(np.prod(shape))
        if dtype.kind in "?U" or not size:  # not every bit pattern is a truth value or a letter
            out[name] = draw(hnp.arrays(dtype, shape))
        else:
            out[name] = np.frombuffer(draw(st.binary(min_size=size, max_size=size)), dtype).reshape(shape)
    return out


def split(folder: Path, table: Table, cuts: Sequence[int]) -> list[Path]:
    """Write the rows of a table to ``part_0.npz`` …, cut where it is said."""
    from prep_lib.shards.npz import NpzWriter

    count = len(next(iter(table.values())))
    edges = [0, *sorted(min(cut, count) for cut in cuts), count]
    paths = [folder / f"part_{number}.npz" for number in range(len(edges) - 1)]
    for path, first, last in zip(paths, edges[:-1], edges[1:], strict=True):
        with NpzWriter(path) as writer:
            for name, values in table.items():
                writer.array(name, values[first:last])
    return paths


def rows_of(paths: Sequence[Path]) -> list[bytes]:
    """Return every row of some files as bytes, all fields together, sorted."""
    out = []
    for path in paths:
        with np.load(path) as shard:
            columns = [shard[name] for name in sorted(shard.files)]
            out += [b"|".join(np.asarray(column[at]).tobytes() for column in columns) for at in range(len(columns[0]))]
    return sorted(out)


def sizes_of(paths: Sequence[Path]) -> list[int]:
    """Return the rows of some files."""
    with_rows = []
    for path in paths:
        with np.load(path) as shard:
            with_rows.append(len(shard[shard.files[0]]))
    return with_rows
