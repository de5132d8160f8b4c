"""Nothing in a notebook's HTML acts or asks, and no text tells of this machine."""

from __future__ import annotations

import getpass
import platform
import re
from pathlib import Path

import pytest
from attacks import ATTACKS
from hypothesis import given, settings
from hypothesis import strategies as st

from prep_lib.cluster import KINDS, parse
from prep_lib.safe import Mask, safe_html


@pytest.mark.parametrize(
    ("html", "safe"),
    [
        ("<p>a<br/>b &amp; &#20320;</p>", "<p>a<br>b &amp; &#20320;</p>"),
        ("<SCRIPT>x</SCRIPT>y", "y"),
        ("<iframe><p>in</p></iframe>out", "out"),
        ("<!-- c --><p>d</p>", "<p>d</p>"),
        ('<a href="https://a.b/c">d</a>', '<a href="https://a.b/c">d</a>'),
        ('<a href=" java\nscript:x">d</a>', "<a>d</a>"),
        ("<svg><use href='http://a/b'></use></svg>", "<svg><use></use></svg>"),
        ("<svg viewBox='0 0 1 1'><path d='M0\n0'/></svg>", '<svg viewbox="0 0 1 1"><path d="M0 0"></path></svg>'),
        ("<svg><title>t</title></svg><title>u</title>", "<svg><title>t</title></svg>u"),
        ("<svg><style><img src=x onerror=y></style></svg>z", "<svg></svg>z"),
        ('<p style="width:50%" ONCLICK=x>d</p>', '<p style="width:50%">d</p>'),
        ('<p style="position : fixed">d</p>', "<p>d</p>"),
        ('<p style="background:u\\72l(http://a)">d</p>', "<p>d</p>"),
        ('<meta http-equiv="refresh" content="0;url=http://a"><form action=http://a>d</form>', "d"),
        ('<img src="data:image/png;base64,AA" alt="x">', '<img src="data:image/png;base64,AA" alt="x">'),
        ('<img src="data:image/png;base64,AA">', '<img src="data:image/png;base64,AA" alt="">'),
        ('<img src="http://a/b.png" alt="&lt;b">', "&lt;b"),
        ("</div></main><b>x", "<b>x</b>"),
        ("<b><i>x</b>y", "<b><i>x</i></b>y"),
        ("<img src=x onerror=y ", "&lt;img src=x onerror=y "),
        ("<textarea>a<select>b", "ab"),
        ("a\u202e&rlm;", 'a<i class="u">U+202E</i><i class="u">U+200F</i>'),
        ("\x00\ud800", '<i class="u">U+0000</i><i class="u">U+D800</i>'),
    ],
)  # fmt: skip
def test_html_of_a_notebook_loses_what_acts_and_keeps_the_rest(html, safe):
    assert safe_html(html) == safe


@pytest.mark.parametrize(
    ("sheet", "kept"),
    [
        (".a{color:red}", True), ('.a::before{content:"−"}', True), ("@media print{.a{color:red}}", True),
        ("/* } */.a{color:red}", True), ("} body{display:none} @scope{", False), ("a{", False), ("@import 'x';", False),
        ("a{b:url(http://c)}", False), ("a{b:url(data:image/png;base64,AA)}", True), ("a{b:u\\72l(c)}", False),
        ("a{position:fixed}", False), ('a{content:"}"}', False), ("a{b:image-set('c')}", False),
    ],
)  # fmt: skip
def test_a_style_sheet_reaches_no_further_than_its_own_output(sheet, kept):
    found = safe_html(f"<style>{sheet}</style>")
    assert found.startswith("<style>@scope (.out){") if kept else found == ""


#: A style sheet that is kept gets its walls anew each time.
WORDS = [text for text in ATTACKS.values() if "<style" not in text]


@settings(max_examples=60)
@given(st.lists(st.sampled_from([*WORDS, "<b>", "</b>", "<table>", "<td>", "<", ">", "a", "&", '"', "'"]), max_size=6))
def test_what_was_made_harmless_is_harmless_and_stays_as_it_is(parts):
    once = safe_html("".join(parts))
    once.encode("utf-8")
    assert safe_html(once) == once
    assert not re.search(r"<(?:script|iframe|object|embed|form|textarea|base|link|meta|style)\b", once)


def test_a_character_nobody_sees_does_not_end_a_drawing():
    assert safe_html("<svg><text>a\u202eb&#x202e;</text></svg>") == "<svg><text>a[U+202E]b[U+202E]</text></svg>"


@pytest.mark.parametrize("address", ["gpu01.corp:1", "tcp://gpu01.corp:1", "tls://gpu01.corp:1", "[gpu01.corp]:1"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_address_the_engine_takes_is_no_address_in_a_text(kind, address):
    if kind == "dask" or "://" not in address:
        assert parse(f"{kind}:{address}") == (kind, address)
    for text in (f"{kind}:{address}", f"engine=&#x27;{kind}:{address}&#x27;", f"worker of {kind} at {address}: gone"):
        assert "gpu01" not in Mask(Path("/ws/dir"))(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/home/ann/x", "~/x"), ("/root/x", "~/x"), ("C:\\Users\\ann\\x", "~\\x"), ("/ws/dir/runs/a", "runs/a"),
        ("https://ann:pw@a.b/c", "https://a.b/c"), ("dask:tcp://node-7:8786", "dask:tcp://host"),
        ("dask:tls://gpu01.corp:8786", "dask:tls://host"), ("engine='dask:gpu01.corp:8786'", "engine='dask:host'"),
        ("dask:[fe80::1]:8786", "dask:host"), ("dask:ann@gpu01:8786", "dask:host"),
        ("ray:ray://head:10001", "ray:ray://host"), ("ray:[::1]:6379", "ray:host"),
        ("engine: no dask answers at gpu01:8786: gone", "engine: no dask answers at host: gone"),
        ("engine: worker tls://10.0.0.7:1 of dask at gpu01:8786: it", "engine: worker tls://host of dask at host: it"),
        ("engine: worker 10.0.0.7 (ab) of ray at 10.0.0.1:6379: it", "engine: worker host (ab) of ray at host: it"),
        ("engine: worker gpu07.corp: it", "engine: worker host: it"),
        ("prep run a --address gpu01:8786", "prep run a --address host"),
        ("sftp://bob@nas.corp:22/a/b", "sftp://host/a/b"), ("hdfs://nn.corp/a", "hdfs://host/a"),
        ("bob@gpu01.corp:/data/x", "user@host:/data/x"), ("bob@c.d: hello", "bob@c.d: hello"),
        ("s3://bucket/a https://a.b/c", "s3://bucket/a https://a.b/c"), ("task: 3 at 10:30", "task: 3 at 10:30"),
        ("ray:head:6379", "ray:host"), ("/data/ann/x", "/data/user/x"), ("ann@a.b ann", "user@a.b ann"),
        ("Traceback (most recent call last):\n  File 'a'\n    x\nValueError: y", "ValueError: y"),
        ("/ws/dir", ""), ("/ws/dir2/a", "/ws/dir2/a"), ("ab-1x", "ab-1x"), ("at ab-1.", "at host."),
    ],
)  # fmt: skip
def test_a_machine_is_not_told(monkeypatch, text, shown):
    monkeypatch.setattr(platform, "node", lambda: "ab-1")
    monkeypatch.setattr(getpass, "getuser", lambda: "ann")
    assert Mask(Path("/ws/dir"))(text) == shown
