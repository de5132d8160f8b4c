"""Nothing in a notebook's HTML acts or asks, and no text tells of this machine."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from prep_lib.safe import Mask, safe_html


@pytest.mark.parametrize(
    ("html", "safe"),
    [
        ("<p>a<br/>b &amp; &#20320;</p>", "<p>a<br/>b &amp; &#20320;</p>"),
        ("<SCRIPT>x</SCRIPT>y", "y"),
        ("<iframe><p>in</p></iframe>out", "out"),
        ("<!-- c --><p>d</p>", "<p>d</p>"),
        ('<a href="https://a.b/c">d</a>', '<a href="https://a.b/c">d</a>'),
        ('<a href=" java\nscript:x">d</a>', "<a>d</a>"),
        ("<svg><use href='http://a/b'></use></svg>", "<svg><use></use></svg>"),
        ('<p style="width:50%" ONCLICK=x>d</p>', '<p style="width:50%">d</p>'),
        ("<style>p{color:red}</style>", "<style>p{color:red}</style>"),
        ('<meta http-equiv="refresh" content="0;url=http://a"><form action=http://a>d</form>', "d"),
        ('<img src="data:image/png;base64,AA" alt="x">', '<img src="data:image/png;base64,AA" alt="x">'),
    ],
)
def test_html_of_a_notebook_loses_what_acts_and_keeps_the_rest(html, safe):
    assert safe_html(html) == safe


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/home/ann/x", "~/x"), ("/root/x", "~/x"), ("C:\\Users\\ann\\x", "~\\x"), ("/ws/dir/runs/a", "runs/a"),
        ("/ws/dir", ""), ("/ws/dir2/a", "/ws/dir2/a"), ("ab-1x", "ab-1x"), ("at ab-1.", "at host."),
    ],
)  # fmt: skip
def test_a_machine_is_not_told(monkeypatch, text, shown):
    monkeypatch.setattr(platform, "node", lambda: "ab-1")
    assert Mask(Path("/ws/dir"))(text) == shown
