"""Every word a person reads in a widget or report, English and Chinese.

    say("packing.piece", "en", n=1180)  ->  1,180 tokens
    say("packing.piece", "zh", n=1180)  ->  1,180 个 token

One table, one row a sentence, so that a missing translation is seen and not guessed. What a program reads (names of
stages, reasons and parameters) is the same in every language and is not in here.
"""

from __future__ import annotations

from prep_lib.errors import unknown

#: The columns of the table.
LANGS = ("en", "zh")

#: key: (English, Chinese); what stands in braces is filled in by `say`.
WORDS: dict[str, tuple[str, str]] = {
    # one word for one thing, wherever it is shown
    "apply": ("Apply", "应用"),
    "algorithm": ("algorithm", "算法"),
    "characters": ("characters", "字符"),
    "cut": ("cut", "切除"),
    "differs": (
        "These settings differ from the parameters cell. To keep them, put this into it, or press Apply.",
        "当前设置与参数单元格不同。若要保留，请写入参数单元格，或按“应用”。",
    ),
    "documents": ("documents", "文档"),
    "dropped": ("dropped", "丢弃"),
    "failed": ("failed", "失败"),
    "flow": ("what happened", "去向"),
    "in": ("in", "输入"),
    "kept": ("kept", "保留"),
    "padding": ("padding", "填充"),
    "reason": ("reason", "原因"),
    "share": ("share", "占比"),
    "source": ("source", "来源"),
    "trained": ("trained", "参与训练"),
    # progress
    "progress.tasks": ("{done:,} of {tasks:,} tasks", "已完成 {done:,} / {tasks:,} 个任务"),
    "progress.before": ("{done:,} were already done", "其中 {done:,} 个此前已完成"),
    "progress.seconds": ("{seconds} s", "{seconds} 秒"),
    "progress.left": ("about {seconds} s left", "预计还需 {seconds} 秒"),
    # the ledger
    "ledger.title": ("What came in, what stayed, what went", "输入多少，保留多少，去掉多少"),
    "ledger.sum": (
        "{into:,} documents in, {kept:,} kept ({share})",
        "输入 {into:,} 篇文档，保留 {kept:,} 篇（{share}）",
    ),
    "ledger.empty": ("Nothing has been counted yet.", "尚无任何计数。"),
    "ledger.balanced": (
        "The ledger balances: every document and every token is accounted for.",
        "账目平衡：每一篇文档、每一个 token 都有去处。",
    ),
    "ledger.documents": ("Documents, stage by stage", "逐阶段的文档"),
    "ledger.row": (
        "in {into:,} · kept {kept:,} · dropped {dropped:,} · failed {failed:,}",
        "输入 {into:,} · 保留 {kept:,} · 丢弃 {dropped:,} · 失败 {failed:,}",
    ),
    "ledger.repeated": ("repeated {n:,}", "重复 {n:,}"),
    "ledger.expanded": ("expanded {n:,}", "展开 {n:,}"),
    "ledger.why": ("why {n:,} went, by reason and source", "{n:,} 篇的去除原因（按原因与来源）"),
    "ledger.sources": ("by source", "按来源"),
    "ledger.tokens": ("Tokens: where each one went", "Token：每一个的去向"),
    "ledger.content": ("content", "正文"),
    "ledger.control": ("control", "控制"),
    "ledger.eos": ("EOS", "EOS"),
    "ledger.written": ("written", "写入"),
    "ledger.rest": ("remainder", "余数"),
    "ledger.apart": (
        "Apart from the balance: {padding:,} padding ({padding_share} of the stored places), "
        "{trained:,} trained ({trained_share} of the written tokens).",
        "不计入平衡：填充 {padding:,}（占存储位置的 {padding_share}），"
        "参与训练 {trained:,}（占写入 token 的 {trained_share}）。",
    ),
    # tokens coloured by loss
    "mask.title": ("Which tokens does this strategy train, and why?", "这个策略训练哪些 token，为什么？"),
    "mask.sub": (
        "strategy {strategy} · record {at:,} of {n:,} · tokenizer {tokenizer}",
        "策略 {strategy} · 第 {at:,} / {n:,} 条记录 · 分词器 {tokenizer}",
    ),
    "mask.conversation": ("Conversation", "对话"),
    "mask.is_trained": ("{role} · trained", "{role} · 参与训练"),
    "mask.tokens": ("Tokens", "Token"),
    "mask.counts": (
        "{n:,} tokens · {trained:,} trained ({share}) · {control:,} control",
        "{n:,} 个 token · {trained:,} 个参与训练（{share}）· {control:,} 个控制 token",
    ),
    "mask.counts_row": (
        "{n:,} places · {trained:,} trained · {documents:,} documents · {padding:,} padding ({share})",
        "{n:,} 个位置 · {trained:,} 个参与训练 · {documents:,} 篇文档 · {padding:,} 个填充（{share}）",
    ),
    "mask.legend_word": ("word", "词"),
    "mask.legend_trained": ("trained (bold, underlined)", "参与训练（粗体、下划线）"),
    "mask.legend_context": ("context", "上下文"),
    "mask.legend_control": ("control (boxed)", "控制（方框）"),
    "mask.legend_padding": ("padding (hatched)", "填充（斜线）"),
    "mask.legend_document": ("a document begins", "文档开始"),
    "mask.legend_symbols": ("↵ line feed · → tab", "↵ 换行 · → 制表符"),
    "mask.hint": (
        "Point at a token, or reach it with the Tab key, to see what it is and why it is or is not trained.",
        "将指针移到 token 上，或用 Tab 键移到它，即可查看它是什么、为何参与或不参与训练。",
    ),
    "mask.row_label": ("The tokens in order, each with its explanation", "按顺序排列的 token，各附说明"),
    "mask.detail": ("id {id} · position {at} · bytes {bytes}", "id {id} · 位置 {at} · 字节 {bytes}"),
    "mask.where": ("turn {turn} ({role}) · {part}", "第 {turn} 轮（{role}）· {part}"),
    "mask.part_start": ("start: what opens the turn", "start：轮次开头"),
    "mask.part_content": ("content", "content：内容"),
    "mask.part_stop": ("stop: where the turn ends", "stop：轮次结束处"),
    "mask.part_after": ("after: behind the stop token", "after：停止 token 之后"),
    "mask.yes": ("Trained.", "参与训练。"),
    "mask.no": ("Not trained.", "不参与训练。"),
    "mask.why_open": (
        "The strategy writes this to open a turn; the model reads it and never has to write it.",
        "这是策略写入的轮次开头；模型只读它，从不需要自己写出它。",
    ),
    "mask.why_prompt": (
        "This is the generation prompt: at inference it is given, and the answer begins behind it.",
        "这是生成提示：推理时它是给定的，回答从它之后开始。",
    ),
    "mask.why_read": (
        "This is what the {role} says; only answers of the assistant are trained.",
        "这是 {role} 说的话；只有 assistant 的回答参与训练。",
    ),
    "mask.why_answer": (
        "This is the answer itself: the model must learn to write it.",
        "这是回答本身：模型必须学会写出它。",
    ),
    "mask.why_opening": (
        "The strategy puts this inside the answer, in front of its text, so the model must write it too.",
        "策略把它放在回答之内、正文之前，所以模型也必须写出它。",
    ),
    "mask.why_context_answer": (
        "This answer is marked as context (train is false in its message), so it is only read.",
        "这条回答被标为上下文（消息中 train 为 false），因此只读不训。",
    ),
    "mask.why_silent": (
        "This answer is empty: its stop token alone would teach silence, so it is only read.",
        "这条回答为空：只训练停止 token 会教模型沉默，因此只读不训。",
    ),
    "mask.why_untold": (
        "The strategy keeps this part of the answer out of the loss.",
        "策略不将回答的这一部分计入损失。",
    ),
    "mask.why_document": (
        "This is the text of the document: the model learns to write all of it.",
        "这是文档正文：模型学习写出全部内容。",
    ),
    "mask.why_eos": (
        "One EOS ends every document, so the model learns where texts end.",
        "每篇文档以一个 EOS 结束，使模型学会文本在何处结束。",
    ),
    "mask.why_closed": (
        "It closes a turn that is only read; the strategy writes it, not the model.",
        "它结束一个只读的轮次；由策略写入，而不是模型。",
    ),
    "mask.why_stop": (
        "The model must learn to write the token it stops at, or its answers never end.",
        "模型必须学会写出停止 token，否则回答永远不会结束。",
    ),
    "mask.why_behind": (
        "Generation has already stopped in front of it; train_after_stop=True would train it.",
        "生成在它之前已经停止；train_after_stop=True 才会训练它。",
    ),
    "mask.why_after": (
        "It stands behind the stop token and is trained because train_after_stop is on.",
        "它位于停止 token 之后，因 train_after_stop 已开启而参与训练。",
    ),
    "mask.stored_yes": ("The stored loss mask is True here.", "此处存储的 loss mask 为 True。"),
    "mask.stored_no": ("The stored loss mask is False here.", "此处存储的 loss mask 为 False。"),
    "mask.stored_all": (
        "This row has no loss mask: every token of a document is a target.",
        "此行没有 loss mask：文档中的每个 token 都是训练目标。",
    ),
    "mask.stored_padding": (
        "Padding: it lies behind the last document of the row. The stored lengths say so, never the id.",
        "填充：位于此行最后一篇文档之后。由存储的长度得知，从不由 id 推断。",
    ),
    "mask.stored_document": ("document {at:,} of the row · {name}", "此行第 {at:,} 篇文档 · {name}"),
    "mask.row_title": ("A stored row, token by token", "一条存储的行，逐 token"),
    "mask.literal": (
        "The text itself spells control tokens ({names}). They are encoded as text and have no power.",
        "文本中出现了控制 token 的字面写法（{names}）。它们按普通文本编码，不起控制作用。",
    ),
    "mask.no_records": ("There is no record to show.", "没有可显示的记录。"),
    "mask.dropped": (
        "This record is dropped, so nothing of it is trained. The reason: {reason}.",
        "此记录会被丢弃，不参与训练。原因：{reason}。",
    ),
    "mask.strategy": ("strategy", "策略"),
    "mask.record": ("record", "记录"),
    "mask.reset": ("Back to the record", "恢复原记录"),
    "mask.texts": ("What the strategy writes", "策略写入的文本"),
    "mask.parameter": ("parameter", "参数"),
    "mask.value": ("value", "值"),
    "mask.first": ("The first {n:,} of {all:,} are drawn.", "仅绘制 {all:,} 个中的前 {n:,} 个。"),
    "mask.span": (
        "Places {start:,} to {stop:,} of {all:,} are drawn.",
        "绘制 {all:,} 个位置中的第 {start:,} 至 {stop:,} 个。",
    ),
    # packs
    "packing.title": ("How full are the packs, and what is cut?", "打包有多满，切断了什么？"),
    "packing.sub": (
        "{n:,} documents, {tokens:,} tokens · packs of {size:,} tokens",
        "{n:,} 篇文档，{tokens:,} 个 token · 每包 {size:,} 个 token",
    ),
    "packing.strips": ("{n:,} of {packs:,} packs by {algorithm}", "{algorithm} 的 {packs:,} 包中的 {n:,} 包"),
    "packing.first": ("The first ones, in the order of the stream.", "按数据流顺序的最前几包。"),
    "packing.spread": (
        "Spread evenly over the plan, from its fullest pack to its emptiest.",
        "在规划中均匀选取，从最满到最空。",
    ),
    "packing.pack": ("pack {at:,}", "第 {at:,} 包"),
    "packing.strip": ("{documents:,} documents, {filled} filled", "{documents:,} 篇文档，已填 {filled}"),
    "packing.piece": ("{n:,} tokens", "{n:,} 个 token"),
    "packing.piece_cut": ("{n:,} tokens, cut here", "{n:,} 个 token，在此切断"),
    "packing.more": ("{n:,} more documents, {tokens:,} tokens", "另有 {n:,} 篇文档，{tokens:,} 个 token"),
    "packing.legend_document": (
        "one document; the colour only tells neighbours apart",
        "一篇文档；颜色仅用于区分相邻者",
    ),
    "packing.legend_cut": ("a document is cut", "文档被切断"),
    "packing.compare": ("All algorithms at this pack size", "此打包长度下的所有算法"),
    "packing.packs": ("packs", "包数"),
    "packing.documents_cut": ("documents cut", "被切断的文档"),
    "packing.tokens_lost": ("tokens lost", "丢失的 token"),
    "packing.note": (
        "★ is the algorithm chosen. Padding and trained are shares of all stored places. "
        "Lost are tokens of documents longer than a pack, or of a tail that is dropped.",
        "★ 为所选算法。填充与参与训练为占全部存储位置的比例。丢失的是比一包更长的文档或被丢弃的尾部的 token。",
    ),
    "packing.none": ("There is no document to pack.", "没有可打包的文档。"),
    "packing.size": ("pack size", "打包长度"),
    # reports
    "report.bytes": ("bytes", "字节"),
    "report.changed": ("changed", "改动"),
    "report.code": ("code", "代码"),
    "report.counted": ("{name}: what was kept, stage by stage", "{name}：逐阶段的保留情况"),
    "report.efficiency": ("packing efficiency", "打包效率"),
    "report.file": ("file", "文件"),
    "report.inputs": ("Files read", "读取的文件"),
    "report.kept": ("records kept", "保留的记录"),
    "report.meaning": ("meaning", "含义"),
    "report.notebook": ("notebook", "笔记本"),
    "report.notebooks": ("Notebooks", "笔记本"),
    "report.notes": ("What the engine said", "引擎的说明"),
    "report.outputs": ("Files written", "写出的文件"),
    "report.parameter": ("parameter", "参数"),
    "report.parameters": ("Parameters ({n:,})", "参数（{n:,}）"),
    "report.recipe": ("Recipe, every value written out", "配方（列出所有取值）"),
    "report.records": ("records in", "输入的记录"),
    "report.run": ("Run {name}", "运行 {name}"),
    "report.stage": ("stage", "阶段"),
    "report.state": ("state", "状态"),
    "report.state_done": ("done", "完成"),
    "report.state_failed": ("failed", "失败"),
    "report.state_interrupted": ("interrupted", "中断"),
    "report.state_open": ("not run yet", "尚未运行"),
    "report.state_running": ("running", "运行中"),
    "report.title": ("Run {name}: what came in, what was kept", "运行 {name}：输入多少，保留多少"),
    "report.tokens": ("tokens written", "写入的 token"),
    "report.value": ("value", "取值"),
    "report.versions": ("Made with", "使用版本"),
    "report.why": ("why", "原因"),
}  # fmt: skip


def say(key: str, lang: str = "en", **values: object) -> str:
    """Return a sentence in a language, its braces filled in.

    Parameters
    ----------
    key : str
        A key of `WORDS`.
    lang : str
        One of `LANGS`.
    **values : object
        What the braces name; a value is put in as it is, escaping is the page's business.

    Raises
    ------
    UnknownName
        If nobody wrote that sentence, or not in that language.

    Examples
    --------
    >>> say("progress.tasks", done=3, tasks=1200)
    '3 of 1,200 tasks'
    >>> say("kept", "zh")
    '保留'
    """
    if lang not in LANGS:
        raise unknown("words", "language", lang, LANGS)
    if key not in WORDS:
        raise unknown("words", "key", key, _near(key))
    return WORDS[key][LANGS.index(lang)].format(**values)


def _near(key: str) -> list[str]:
    """The keys of the same page, so that the error names dozens and not hundreds; all keys if the page is unknown."""
    page = key.split(".")[0] + "."
    return [known for known in WORDS if known.startswith(page)] or list(WORDS)
