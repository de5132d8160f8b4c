"""The control tokens, spelled once.

The bars are full-width (U+FF5C) and the low line is the block ``▁`` (U+2581). The same tokens typed with the ASCII
bar or underscore look alike and are other strings: a tokenizer cuts them into a dozen pieces without a word.

    <｜begin▁of▁sentence｜>   <｜end▁of▁sentence｜>   <｜▁pad▁｜>   <｜im▁start｜>   <｜im▁end｜>
"""

from __future__ import annotations

import re

BOS = "<｜begin▁of▁sentence｜>"
EOS = "<｜end▁of▁sentence｜>"
PAD = "<｜▁pad▁｜>"
IM_START = "<｜im▁start｜>"
IM_END = "<｜im▁end｜>"

#: The order fixes the ids of a tokenizer trained here: BOS 0, EOS 1, PAD 2, IM_START 3, IM_END 4.
CONTROL_TOKENS = (BOS, EOS, PAD, IM_START, IM_END)

#: What counts as a marker inside a strategy's parameter: each must be exactly one id.
MARKER = re.compile(r"<[|｜][^<>|｜\s]+[|｜]>")

#: Other bracketed pieces (``<s>``, ``[INST]``): one id if the tokenizer has them, a warning otherwise.
BRACKETED = re.compile(r"</?[A-Za-z_][\w]*>|\[/?[A-Z_]+\]")


def markers(text: str) -> list[str]:
    """Return the marker pieces of `text` in order.

    Examples
    --------
    >>> markers(IM_START + "user\\n")
    ['<｜im▁start｜>']
    >>> markers("### Response:\\n")
    []
    """
    return MARKER.findall(text)


#: The tags around what a model thinks: a model writes them itself, so inside an answer they are control tokens.
THOUGHT_TAG = re.compile(r"</?(?:seed:)?think>")
