"""What README tells to type exists, and what it tells to write runs."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import textwrap
from pathlib import Path

import pytest

from prep_lib import cli

README = (Path(__file__).parents[1] / "README.md").read_text("utf-8")
COMMANDS = [
    line.partition("  #")[0].strip()
    for block in re.findall(r"```bash\n(.*?)```", README, re.DOTALL)
    for line in block.splitlines()
    if line.startswith("prep ")
]


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_is_one(line: str) -> None:
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        try:
            more = cli._parser().parse_known_args(shlex.split(line)[1:])[1]
        except SystemExit:
            more = ["refused"]
    assert not said.getvalue()
    # The flags of shuffle-npz are read by its own parser.
    assert not more or "shuffle-npz" in line


def test_there_are_commands() -> None:
    assert len(COMMANDS) > 20


def test_the_stage_of_four_steps_runs() -> None:
    part = README[README.index("## Add a stage") :]
    blocks = [textwrap.dedent(block) for block in re.findall(r" *```python\n(.*?)```", part, re.DOTALL)]
    assert len(blocks) == 2
    scope: dict[str, object] = {"__name__": __name__}
    exec("\n".join(blocks), scope)
    assert [doc.id for doc in scope["found"].kept] == ["b"]  # type: ignore[attr-defined]


def test_its_pictures_are_there() -> None:
    for place in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", README):
        assert (Path(__file__).parents[1] / place).stat().st_size < 600_000
