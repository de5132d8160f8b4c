"""A recipe for what a survey found, one that runs: every value with the reason why it was chosen.

Survey ──▶ pages     10_read   … 17_stream   ┐
           texts     11_clean  … 17_stream   │   notebooks/recipes/NAME.yaml
           talks     20_export … 23_inspect  │
           arrays    30_preshuffle           ┘

A recipe that was changed since is never written over: the new one gets another name.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from prep_lib.files import natural
from prep_lib.machine import default_workers, memory_limit
from prep_lib.markup import size
from prep_lib.preflight import preflight
from prep_lib.recipes import read
from prep_lib.survey import Group, Model, Survey, ending, look
from prep_lib.workspace import Run, place_recipe

#: The way each kind of data goes.
WAYS = {"pages": "pretrain", "texts": "pretrain", "talks": "posttrain", "arrays": "preshuffle"}

#: Rows of a pretraining set below which a shorter row is taken, so that there is something to shuffle.
FEW_ROWS = 256

#: Lengths of rows and packs that are tried, tokens.
LENGTHS = (256, 512, 1024, 2048, 4096, 8192, 16384, 32768)

#: The column in which a comment begins.
COMMENT = 44

#: Characters of a line; a longer comment stands above its value.
WIDTH = 130

#: A line of a recipe: name, value, why.
Line = tuple[str, object, str]


def write_recipes(folder: str | Path, named: Sequence[str]) -> int:
    """Look at files, write a recipe for each kind of data into a workspace, and print what was found and is next.

    Returns
    -------
    int
        0; 1 if there was nothing to write a recipe for.
    """
    root = Path(folder).expanduser().resolve()
    print(f"looking   at {_plain(' '.join(named))}", flush=True)
    found = look(named)
    for model in found.models:
        held = [name for name, has in (("tokenizer", model.tokenizer), ("chat template", model.template)) if has]
        print(f"found     {model.place}: {' and '.join(held) or 'nothing that serves'}")
    written = [name for group in found.groups for name in _written(group, found, root)]
    for line in found.unread:
        print(f"left out  {_plain(line)}")
    if not written:
        print("nothing to write a recipe for; name files of rows, pages, texts or npz arrays")
        return 1
    print(f"next      cd {shlex.quote(str(folder))}")
    for name in written:
        print(f"          prep run {shlex.quote(name)} --sample 200    then without --sample, for everything")
    return 0


def _written(group: Group, found: Survey, root: Path) -> Iterator[str]:
    """Write the recipes of one group, and yield their names."""
    for part in _parts(group, root):
        print(f"found     {_plain(part.about())}")
        reads = f": {_value(_place_of(part, root))}"
        name = place_recipe(root, _name(part), partial(draft, part, found.models, root), reads)
        print(f"wrote     notebooks/recipes/{name}.yaml")
        recipe = read(name, root)
        for line in preflight(recipe, Run(root, recipe.name)):
            print(f"          to put right: {_plain(line)}")
        yield name


def _parts(group: Group, root: Path) -> Iterator[Group]:
    """Yield a group, or one for each of its files where a notebook takes one place and they share no pattern."""
    several = group.kind == "talks" and len(_places(group.paths, root)) > 1
    yield from group.parts if several else [group]


def _name(group: Group) -> str:
    """Return what the recipe is called: its way, and the file or the folder it reads."""
    first = Path(group.paths[0])
    stem = first.name if len(group.paths) == 1 else first.parent.name
    word = re.sub(r"[^\w-]+", "-", stem.split(".")[0] if len(group.paths) == 1 else stem).strip("-_")[:40]
    return f"{WAYS[group.kind]}-{word or 'data'}"


# ── the text of a recipe ─────────────────────────────────────────────────────────────────────────────────────────────


def draft(group: Group, models: Sequence[Model], root: Path, name: str) -> str:
    """Return the text of a recipe for one group.

    Parameters
    ----------
    group : Group
    models : sequence of Model
        The first with a tokenizer serves, and the first with a template.
    root : Path
        The workspace: what relative paths mean.
    name : str
    """
    workers, limit = default_workers(), memory_limit()
    budget = max(1, int(limit / 2 / 2**30))
    steps = {"pages": _pretrain, "texts": _pretrain, "talks": _posttrain, "arrays": _preshuffle}[group.kind]
    lines = [
        f"# Written by `prep init` for: {_plain(group.about())}",
        "# Every value may be changed, and every parameter of a notebook may stand below its name: its first cells",
        "# list them. Try it on a sample first:",
        f"#     prep run {shlex.quote(name)} --sample 200",
        f"name: {_value(name)}",
        "defaults:",
        *_lines(
            "  ",
            [
                ("workers", workers, "processes: the cores this machine gives"),
                ("memory_budget", f"{budget}GiB", f"half of the {limit / 2**30:.1f} GiB this machine gives"),
            ],
        ),
        "notebooks:",
    ]
    for notebook, given in steps(group, models, root):
        lines.append(f"  - {notebook}{':' if given else ''}")
        lines += _lines("      ", given)
    return "\n".join(lines) + "\n"


def _lines(indent: str, given: Sequence[Line]) -> Iterator[str]:
    """Write values with their reasons behind them."""
    for name, value, why in given:
        left, right = f"{indent}{name}: {_value(value)}", f"# {_plain(why)}"
        if len(left) > COMMENT or len(right) > WIDTH - COMMENT:
            yield f"{indent}{right}"
            yield left
        else:
            yield f"{left.ljust(COMMENT)}  {right}"


def _value(value: object) -> str:
    """Write a value so that YAML reads it as it is."""
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    return text if re.fullmatch(r"[\w./*-][\w./* =>-]*(?<! )", text, re.ASCII) else json.dumps(text, ensure_ascii=False)


def _plain(text: str) -> str:
    """Return a text of one line without control characters: names of files and columns may hold any."""
    return "".join(character if character.isprintable() else "�" for character in " ".join(text.split()))


def _places(paths: Sequence[str], root: Path) -> list[str]:
    """Return files as few words: a pattern where it fits a folder's files of one ending and no others."""
    out, left = [], dict.fromkeys(paths)
    for path in paths:
        if path not in left:
            continue
        folder, kind = os.path.dirname(path), ending(path)
        alike = {os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(kind) and name[0] != "."}
        mine = [one for one in left if os.path.dirname(one) == folder and ending(one) == kind]
        whole = len(mine) > 1 and alike == set(mine) and not any(sign in folder for sign in "*?[")
        out.append(_place(os.path.join(folder, f"*{kind}") if whole else path, root))
        for one in mine if whole else [path]:
            left.pop(one)
    return out


def _place(path: str, root: Path) -> str:
    inside = Path(path).is_relative_to(root)
    return Path(path).relative_to(root).as_posix() if inside else path


def _place_of(group: Group, root: Path) -> str:
    """Return the files of a group as its first notebook is given them."""
    if group.kind == "talks":
        return _places(group.paths, root)[0]
    if group.kind != "arrays":
        return _words(group.paths, root)
    folder = os.path.dirname(group.paths[0])
    return _place(os.path.dirname(folder) if os.path.basename(folder) in ("train", "eval") else folder, root)


def _words(paths: Sequence[str], root: Path) -> str:
    """Return files as one string of words."""
    return (
        shlex.join(_places(sorted(paths, key=natural), root)) if len(paths) > 1 else shlex.quote(_place(paths[0], root))
    )


# ── pretrain ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _pretrain(group: Group, models: Sequence[Model], root: Path) -> Iterator[tuple[str, list[Line]]]:
    files = _files_line(group)
    fields: list[Line] = []
    if group.kind == "texts":
        fields.append(("text_field", group.text, f"of {', '.join(group.columns)[:70]}"))
        if group.source and group.source != "source":
            fields.append(("source_field", group.source, "few values for many rows: shares are told by it"))
    place: Line = ("inputs" if group.kind == "pages" else "files", _place_of(group, root), files)
    if group.kind == "pages":
        yield "10_read", [place, _failing(group)] if group.bad else [place]
    cleaned = [] if group.kind == "pages" else [place, *fields, *([_failing(group)] if group.bad else [])]
    yield "11_clean", [*cleaned, ("rules", "en=fineweb/code zh=fineweb2/cmn other=pass", _spoken(group))]
    chinese = group.chinese >= 0.5
    yield (
        "12_dedup",
        [
            ("threshold", 0.8, "Jaccard similarity from which two documents are near duplicates"),
            (
                "shingle",
                "char5" if chinese else "word5",
                f"{group.chinese:.0%} of the characters looked at are Chinese",
            ),
        ],
    )
    yield (
        "13_mix",
        [
            ("benchmarks", "", "files or folders of the benchmarks you will test on; none named"),
            ("weights", "natural", "each source as large as it is; or web=0.7 code=0.3"),
        ],
    )
    yield "14_tokenize", [_tokenizer_line(group, models, root)]
    length, why = _row_length(group)
    yield (
        "15_pack",
        [
            ("seq_len", length, why),
            ("packing", "concat", "nothing is padded; best_fit_split cuts only what is longer than a row"),
        ],
    )
    yield "16_shard", []
    yield "17_stream", []


def _files_line(group: Group) -> str:
    rows = "" if group.rows is None else f", {'' if group.exact else 'about '}{group.rows:,} documents"
    return f"{len(group.paths):,} file{'s' if len(group.paths) > 1 else ''}, {size(group.bytes)}{rows}"


def _failing(group: Group) -> Line:
    share = min(1.0, max(0.01, 2 * group.bad))
    return (
        "max_failed",
        round(share, 3),
        f"{group.bad:.1%} of {group.looked:,} rows looked at cannot be read: {group.why}",
    )


def _spoken(group: Group) -> str:
    spoken = ", ".join(f"{code} {share:.0%}" for code, share in [*group.languages.items()][:4] if share >= 0.01)
    return f"looked at: {spoken or 'no language'}; other=pass keeps what has no rules of its own"


def _tokenizer_line(group: Group, models: Sequence[Model], root: Path) -> Line:
    if (model := next((one for one in models if one.tokenizer), None)) is not None:
        return ("tokenizer", _place(model.place, root), "found among your files")
    many = group.tokens
    wanted = 32768 if many > 2e7 else 16384 if many > 4e6 else 8192
    return ("vocab_size", wanted, f"no tokenizer named: one is trained here, on about {many:,} tokens of text")


def _row_length(group: Group) -> tuple[int, str]:
    """Return the tokens of a row: the usual 2,048, less where too few rows would come of it."""
    # Of archives the rows are not counted: a byte, packed, makes at most about one token.
    many = group.bytes if group.rows is None else group.tokens
    told = f"about {many:,} tokens in all"
    fits = [length for length in LENGTHS if length <= 2048 and many >= FEW_ROWS * length]
    if 2048 in fits:
        return (
            2048,
            f"tokens of a row; {told if group.rows else 'as models of a few billion parameters are begun with'}",
        )
    return max(fits, default=LENGTHS[0]), f"{told}: rows of 2,048 would be fewer than {FEW_ROWS}"


# ── posttrain, preshuffle ────────────────────────────────────────────────────────────────────────────────────────────


def _posttrain(group: Group, models: Sequence[Model], root: Path) -> Iterator[tuple[str, list[Line]]]:
    dataset: list[Line] = [("dataset", _place_of(group, root), _files_line(group).replace("documents", "rows"))]
    dataset.append(("prefix", group.processor, "beginning of the file names"))
    if group.renames:
        said = " ".join(f"{old}->{new}" for old, new in group.renames.items())
        dataset.append(("columns", said, f"of {', '.join(group.columns)[:60]}; then it is the form {group.form}"))
    yield "20_export", dataset
    known = next((one for one in models if one.tokenizer), None)
    written = next((one for one in models if one.template), None)
    tokenizer: Line = (
        "tokenizer",
        _place(known.place, root) if known else "",
        "found among your files" if known else "none named: one is trained here; name your model's folder",
    )
    template = _template(known, written, root)
    processor: Line = ("processor", group.processor, f"the rows are {group.form}: {_PURPOSE[group.processor]}")
    failing = [_failing(group)] if group.bad else []
    yield "21_templates", [tokenizer, template, processor]
    yield "22_tensorize", [tokenizer, template, processor, _pack(group, known), *failing]
    yield "23_inspect", [tokenizer]


#: What each processor makes.
_PURPOSE = {
    "sft": "answers are trained", "dpo": "chosen and rejected answers side by side, never packed",
    "kto": "answers with a label, never packed",
}  # fmt: skip


def _template(known: Model | None, written: Model | None, root: Path) -> Line:
    if written is not None:
        return ("template", _place(written.place, root), "the chat template found among your files")
    if known is not None and not known.chatml:
        return ("template", "", "the tokenizer has no template and no ChatML tokens: the strategy below is plain text")
    return ("template", "chatml", "no chat template named; ChatML's tokens are in the tokenizer")


def _pack(group: Group, known: Model | None) -> Line:
    """Return the tokens of a pack: twice what 99 of 100 conversations need, so that packs fill well."""
    if group.processor != "sft":
        return ("pack_size", 0, f"{group.processor} is never packed: rows stay as long as they are")
    lengths = sorted(group.lengths) or [0]
    # The built-in tokenizer has 8,192 tokens and cuts finer; the turns of a template come on top.
    most = round(lengths[min(len(lengths) - 1, len(lengths) * 99 // 100)] * (1.2 if known else 1.6)) + 32
    fits = next((length for length in LENGTHS[1:] if length >= 2 * most), LENGTHS[-1])
    limit = known.limit if known else None
    if limit and limit < fits:
        return ("pack_size", limit, "what the model's configuration says a row may have")
    return ("pack_size", fits, f"tokens; 99 of 100 of {len(lengths):,} rows looked at have at most about {most:,}")


def _preshuffle(group: Group, models: Sequence[Model], root: Path) -> Iterator[tuple[str, list[Line]]]:
    del models
    rows = group.rows or 0
    shard = min(1_000_000, max(1, -(-rows // len(group.paths))))
    source = f"of {', '.join(group.columns)[:70]}" if group.source else "no field names a row's source: its file does"
    yield (
        "30_preshuffle",
        [
            (
                "input_dir",
                _place_of(group, root),
                f"{len(group.paths):,} npz files, {size(group.bytes)}, {rows:,} rows",
            ),
            ("output_dir", "", "in the folder of this run; or a folder on a disk with room"),
            ("source_field", group.source, source),
            ("shard_size", shard, "rows of every shard but the last: as many as now, at most 1,000,000"),
        ],
    )
