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
    # the languages of a set of documents
    "language.title": ("Languages", "语言"),
    "language.sum": (
        "{n:,} documents, languages: {languages:,}; {mixed:,} of the documents ({share}) hold several languages: less "
        "than {pure} of what is in a language is in the main one",
        "{n:,} 篇文档，{languages:,} 种语言；其中 {mixed:,} 篇（{share}）含多种语言：主要语言不到语言文字的 {pure}",
    ),
    "language.none": ("No document has a language yet.", "还没有文档带有语言信息。"),
    "language.missing": (
        "{n:,} documents have no language in their meta: let them pass the stage Language first.",
        "{n:,} 篇文档的 meta 中没有语言：请先让它们经过 Language 步骤。",
    ),
    "language.mix": ("What there is of each language", "各语言的数量"),
    "language.language": ("language", "语言"),
    "language.mixed": ("of several languages", "含多种语言"),
    "language.more": ("{n:,} more languages", "另有 {n:,} 种语言"),
    "language.und": ("not sure", "无法确定"),
    "language.zxx": ("no language", "非语言"),
    "language.sure": ("How sure the language of a document is", "文档语言的可信程度"),
    "language.sure_note": (
        "The share of its characters in its language, each counted by how sure the model is.",
        "属于该语言的字符占比，每个字符按模型的把握加权。",
    ),
    "language.bin": ("score {span}: {n:,} documents", "得分 {span}：{n:,} 篇文档"),
    "language.least": ("The least sure documents", "最不确定的文档"),
    "language.document": ("document", "文档"),
    "language.shares": ("language and shares", "语言与占比"),
    "language.score": ("score", "得分"),
    "language.begins": ("begins with", "开头"),
    "language.pieces": ("One document, piece by piece", "一篇文档，逐段显示"),
    "language.shown": ("{id}: {shares} · score {score}", "{id}：{shares} · 得分 {score}"),
    "language.cut": (
        "Shown: {pieces:,} pieces of the first {n:,} characters.",
        "显示前 {n:,} 个字符中的 {pieces:,} 段。",
    ),
    # benchmark items in documents
    "contamination.title": ("Which benchmark items are in these documents?", "这些文档中有哪些评测题目？"),
    "contamination.none_given": (
        "Decontamination: no benchmark was given, so nothing was looked for. This is not a clean result.",
        "评测去污：没有给出任何评测集，因此什么也没有检查。这不代表数据是干净的。",
    ),
    "contamination.sum": (
        "{held:,} of {n:,} documents hold items, {going:,} of them are dropped or cut; {items:,} items were looked for",
        "{n:,} 篇文档中有 {held:,} 篇含有题目，其中 {going:,} 篇被丢弃或切除；共查找 {items:,} 道题目",
    ),
    "contamination.counts": ("What was looked for, and found", "查找了什么，找到了什么"),
    "contamination.benchmark": ("benchmark", "评测集"),
    "contamination.with": ("{query}, beside it {support}", "{query}，旁及 {support}"),
    "contamination.items": ("items", "题目"),
    "contamination.untold": ("never found", "无法查找"),
    "contamination.leaning": ("only with support", "须连同旁及"),
    "contamination.kind_verbatim": ("verbatim", "原文"),
    "contamination.kind_edited": ("edited", "改动"),
    "contamination.kind_reordered": ("reordered", "换序"),
    "contamination.kind_fragment": ("fragment", "片段"),
    "contamination.kind_renumbered": ("other numbers", "数字不同"),
    "contamination.rule": (
        "Of a long question {threshold} must stand in a stretch of about its own length, of a short one nearly all; or "
        "{fragment} words of it in a row. A question with fewer than {words} words that are not common, or about a "
        "passage, or asked of many, counts only with the fields beside it. {common:,} phrases that many items or "
        "documents share do not count.",
        "长题目须有 {threshold} 出现在与其长度相近的一段中，短题目须几乎全部出现；或连续 {fragment} 个词相同。"
        "非常见词少于 {words} 个的题目，就一段材料提问的题目，或多次出现的问法，须连同其旁及字段一起出现。"
        "许多题目或文档共有的 {common:,} 个短语不计入。",
    ),
    "contamination.report": (
        "Items with other numbers are reported, and the document stays.",
        "数字不同的题目只报告，文档保留。",
    ),
    "contamination.drop": (
        "Items with other numbers are treated as the others are.",
        "数字不同的题目与其他命中同样处理。",
    ),
    "contamination.unit_document": ("The document goes.", "整篇文档丢弃。"),
    "contamination.unit_paragraph": ("The paragraph goes.", "切除所在段落。"),
    "contamination.pairs": ("Items beside their places", "题目与所在位置对照"),
    "contamination.nothing": ("None of the items was found.", "没有找到任何题目。"),
    "contamination.more": ("{n:,} more hits are not shown.", "另有 {n:,} 处命中未显示。"),
    "contamination.found": (
        "{item} · in {document}, characters {start:,} to {stop:,} · {kind} · {score} of the question, limit {limit}",
        "{item} · 位于 {document} 第 {start:,} 至 {stop:,} 个字符 · {kind} · 题目的 {score}，界限 {limit}",
    ),
    "contamination.item": ("item", "题目"),
    "contamination.place": ("document", "文档"),
    "contamination.recall": ("Are known items found in disguise?", "伪装后的已知题目能否找到？"),
    "contamination.recalled": (
        "{found:,} of {planted:,} items planted in neutral text were found ({share}).",
        "植入普通文本的 {planted:,} 道题目中找到 {found:,} 道（{share}）。",
    ),
    "contamination.untold_note": (
        "Not planted, and never found: {n:,} items too short or too common to be told from chance.",
        "未植入，也无法找到：{n:,} 道题目过短或过于常见，无法与巧合区分。",
    ),
    "contamination.leaning_note": (
        "Planted with the fields beside them, and found only so: {n:,} items whose question proves nothing alone.",
        "连同旁及字段一起植入，也只有这样才会被找到：{n:,} 道题目的问句本身不足为证。",
    ),
    "contamination.unread": (
        "Not looked for: {n:,} files of no known ending ({names}).",
        "未查找：{n:,} 个后缀未知的文件（{names}）。",
    ),
    "contamination.empty": (
        "Not looked for: {n:,} records whose question is empty.",
        "未查找：{n:,} 条问题为空的记录。",
    ),
    "contamination.as_verbatim": ("as it is", "原样"),
    "contamination.as_other_case": ("capitals", "大写"),
    "contamination.as_re_wrapped": ("re-wrapped", "重新换行"),
    "contamination.as_full_width": ("full width", "全角"),
    "contamination.as_other_quotes": ("other quotes", "其他引号"),
    "contamination.as_chinese_punctuation": ("Chinese marks", "中文标点"),
    "contamination.as_traditional": ("traditional", "繁体"),
    "contamination.as_markup": ("markup", "标记"),
    "contamination.as_embedded": ("in a long page", "长文中"),
    "contamination.as_fragment": ("a fragment", "片段"),
    # the loader, and a batch
    "feed.advice_workers": (
        "Handing batches from worker processes to the loop takes most of the time: set num_workers to 0.",
        "大部分时间花在把批次从工作进程交给循环上：请将 num_workers 设为 0。",
    ),
    "feed.advice_batch": (
        "What each call costs takes most of the time: larger batches would use it better.",
        "大部分时间是每次调用的固定开销：批次更大会更划算。",
    ),
    "feed.advice_cache": (
        "Shards are unpacked again and again: shuffle them on disk by prep shuffle-npz, or raise max_cache_shards.",
        "分片被反复解压：请用 prep shuffle-npz 在磁盘上打乱一次，或增大 max_cache_shards。",
    ),
    "feed.advice_prefetch": (
        "Unpacking shards takes most of the time: set prefetch_factor to 2, so that it happens while training runs.",
        "大部分时间花在解压分片上：请将 prefetch_factor 设为 2，让解压与训练同时进行。",
    ),
    "feed.advice_disk": (
        "The rows come from the disk and not from memory: set prefetch_factor to 2, to read while training runs.",
        "数据来自磁盘而非内存：请将 prefetch_factor 设为 2，让读取与训练同时进行。",
    ),
    "feed.advice_extras": (
        "Labels, positions and masks take most of the time: ask for fewer, and for cu_seqlens in place of block_mask.",
        "大部分时间花在标签、位置和掩码上：请少取几项，并用 cu_seqlens 代替 block_mask。",
    ),
    "feed.advice_limit": (
        "Copying the rows takes most of the time, as much as the memory allows: no setting makes that faster.",
        "大部分时间花在复制数据上，已到内存速度的极限：没有设置能更快。",
    ),
    "feed.advice_fine": (
        "The loader takes less than a twentieth of a step: nothing to change.",
        "加载时间不到一步训练的二十分之一：无需更改。",
    ),
    "batch.title": ("What one step reads", "一步训练读到什么"),
    "batch.sum": (
        "{rows:,} rows of {width:,} places: {pieces:,} pieces of documents, {tokens:,} tokens, padding {padding}",
        "{rows:,} 行，每行 {width:,} 个位置：{pieces:,} 段文档，{tokens:,} 个 token，填充 {padding}",
    ),
    "batch.strips": ("{n:,} of {rows:,} rows", "{rows:,} 行中的 {n:,} 行"),
    "batch.row": ("row {at:,}", "第 {at:,} 行"),
    "batch.strip": ("{n:,} pieces, {filled} filled", "{n:,} 段，已填 {filled}"),
    "batch.more": ("{n:,} more pieces, {tokens:,} places", "另有 {n:,} 段，{tokens:,} 个位置"),
    "batch.legend_ends": ("a document, to its EOS", "一篇文档，到 EOS 为止"),
    "batch.legend_goes": ("goes on in another row", "在另一行继续"),
    "batch.piece_ends": ("{n:,} tokens, the last is EOS", "{n:,} 个 token，最后是 EOS"),
    "batch.piece_goes": ("{n:,} tokens, no EOS: it goes on elsewhere", "{n:,} 个 token，没有 EOS：在别处继续"),
    "batch.tokens": ("Row {at:,}, token by token", "第 {at:,} 行，逐 token"),
    "batch.tokens_note": (
        "Above each token its position: it begins anew with every document.",
        "每个 token 上方是它的位置编号：每篇文档重新从 0 开始。",
    ),
    "batch.tokens_label": ("The tokens of row {at:,} in order", "第 {at:,} 行的 token，按顺序"),
    "batch.hint": (
        "Point at a token, or focus it, to see its id, its position and its target.",
        "指向或聚焦某个 token，可看到它的 id、位置和目标。",
    ),
    "batch.part": (
        "Places {first:,} to {last:,} of {all:,}, where the first document ends.",
        "共 {all:,} 个位置，显示第 {first:,} 到 {last:,} 个：第一篇文档在此结束。",
    ),
    "batch.document": ("piece {at:,} · {n:,} tokens", "第 {at:,} 段 · {n:,} 个 token"),
    "batch.why_document": (
        "With block mask or cu_seqlens its tokens see this document alone.",
        "使用块掩码或 cu_seqlens 时，它的 token 只看得到这篇文档。",
    ),
    "batch.targets": ("{n:,} of its places have a target.", "其中 {n:,} 个位置有目标。"),
    "batch.why_padding": (
        "Known by the stored lengths, whatever its id; never a target.",
        "由存储的长度得知，与 id 无关；从不作为目标。",
    ),
    "batch.detail": (
        "id {id} · place {at} · position {position} · bytes {bytes}",
        "id {id} · 序号 {at} · 位置 {position} · 字节 {bytes}",
    ),
    "batch.target": ("target id {id}", "目标 id {id}"),
    "batch.no_target": ("no target", "无目标"),
    "batch.blocks": ("Who may look at whom", "谁能看到谁"),
    "batch.blocks_said": (
        "Row {at:,}: {n:,} triangles, one a document. From a place (down) to those before it (across): {share} of all "
        "pairs; the rest would look into other documents.",
        "第 {at:,} 行：{n:,} 个三角形，每篇文档一个。从一个位置（纵向）看它之前的位置（横向）：占全部配对的 {share}；"
        "其余的会看到别的文档。",
    ),
    "batch.costs": ("Where the time of the loader goes", "加载器的时间花在哪里"),
    "batch.phase": ("what", "环节"),
    "batch.seconds": ("a batch", "每批"),
    "batch.phase_read": ("read", "读取"),
    "batch.phase_convert": ("copy and convert", "复制与转换"),
    "batch.phase_collate": ("labels and masks", "标签与掩码"),
    "batch.phase_hand_over": ("hand over", "交付"),
    "batch.rate": ("{rows} rows a second; {time} a batch", "每秒 {rows} 行；每批 {time}"),
    # progress
    "progress.tasks": ("{done:,} of {tasks:,} tasks", "已完成 {done:,} / {tasks:,} 个任务"),
    "progress.before": ("{done:,} were already done", "其中 {done:,} 个此前已完成"),
    "progress.seconds": ("{seconds} s", "{seconds} 秒"),
    "progress.left": ("about {seconds} s left", "预计还需 {seconds} 秒"),
    # run on everything
    "everything.title": ("Run on everything", "在全部数据上运行"),
    "everything.sub": (
        "Run {name}: the recipe of this run as it was applied and the notebooks as they are saved, without samples. It "
        "goes on when this notebook is closed.",
        "运行 {name}：按本次运行已应用的配方与已保存的笔记本，不取样。关闭笔记本后仍会继续。",
    ),
    "everything.start": ("Run on everything", "在全部数据上运行"),
    "everything.stop": ("Stop", "停止"),
    "everything.state_new": ("Not started yet", "尚未开始"),
    "everything.state_starting": ("Being checked and started …", "正在检查并启动……"),
    "everything.state_running": ("Running", "运行中"),
    "everything.state_stopping": ("Being stopped; finished work is kept …", "正在停止，已完成的部分会保留……"),
    "everything.state_done": ("Done", "已完成"),
    "everything.state_failed": ("Failed; the button goes on once it is put right", "失败；修正后可用按钮继续"),
    "everything.state_interrupted": (
        "Stopped; finished work is kept, and the button goes on",
        "已停止；已完成的部分已保留，可用按钮继续",
    ),
    "everything.state_killed": (
        "Killed; finished work is kept, and the button goes on",
        "进程被终止；已完成的部分已保留，可用按钮继续",
    ),
    "everything.killed_memory": (
        "{memory}: most likely for want of memory; fewer workers or a smaller memory_budget need less",
        "{memory}：很可能是内存不足；减少 workers 或调小 memory_budget 可降低占用",
    ),
    "everything.killed_else": ("{memory}: by this not the cause", "{memory}：由此看来不是原因"),
    "everything.elsewhere": ("on {host}", "（在 {host} 上）"),
    "everything.refused": ("It did not start:", "未能启动："),
    "everything.all": ("notebooks", "笔记本"),
    "everything.notebooks": ("{done:,} of {plan:,} notebooks done", "已完成 {done:,} / {plan:,} 个笔记本"),
    "everything.left": ("Time left: about {time}", "剩余时间：约 {time}"),
    "everything.left_but": (", and what is not known yet: {names}", "，尚不可知的除外：{names}"),
    "everything.left_rest": ("the rest of {name}", "{name} 的其余部分"),
    "everything.left_unknown": (
        "Time left: unknown, nothing like this was finished here before",
        "剩余时间：未知，此处尚未完成过同类工作",
    ),
    "everything.memory": ("Memory: {memory}", "内存：{memory}"),
    "everything.memory_of": ("at most {peak} of {limit} ({share})", "最高 {peak}，上限 {limit}（{share}）"),
    "everything.memory_unknown": ("not known", "未知"),
    "everything.report": ("The report of this run", "本次运行的报告"),
    "everything.command": ("The same in a terminal, in this workspace:", "在终端中（于本工作区内）的等价命令："),
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
    "ledger.characters": ("characters {into:,} → {kept:,}", "字符 {into:,} → {kept:,}"),
    "ledger.more": ("and {n:,} more", "以及另外 {n:,} 项"),
    "ledger.kept_characters": ("characters kept", "保留字符"),
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
    "journey.title": ("One document's way", "一篇文档的经历"),
    "journey.kept": ("it came through", "全部通过"),
    "journey.dropped": ("dropped by {stage}: {reason}", "被 {stage} 去除：{reason}"),
    "journey.failed": ("failed in {stage}: {reason}", "在 {stage} 失败：{reason}"),
    "journey.sizes": ("{into:,} → {out:,} characters", "{into:,} → {out:,} 字符"),
    "journey.unchanged": ("text unchanged, {n:,} characters", "文本未变，{n:,} 字符"),
    "journey.cut": ("kept, without the lines cut by {reason}", "保留，但按 {reason} 删去部分行"),
    "journey.against": ("{value} against the limit {limit}", "{value}，限值 {limit}"),
    "journey.signal": ("signal", "信号"),
    "journey.value": ("value", "值"),
    "journey.key": ("written", "写入"),
    "journey.measured": ("{n} signals measured", "测得 {n} 个信号"),
    # the audit of an order
    "audit.dispersion": (
        "How much the mix of sources varies between windows of {rows:,} rows; chance alone gives 1.",
        "各来源的比例在每 {rows:,} 行的窗口之间变化多大；完全随机为 1。",
    ),
    "audit.drift": (
        "The same over parts of {rows:,} rows: does the mix change in the course of an epoch?",
        "同上，但每段 {rows:,} 行：一个 epoch 之内比例是否逐渐变化？",
    ),
    "audit.neighbours": (
        "{found:,} rows are followed by a row of the same source; chance alone gives {mean:,.1f}.",
        "有 {found:,} 行的下一行来自同一来源；完全随机约为 {mean:,.1f}。",
    ),
    "audit.document_neighbours": (
        "{found:,} times a row and the next one hold pieces of one document; chance alone gives {mean:,.1f}.",
        "有 {found:,} 次相邻两行含有同一文档的片段；完全随机约为 {mean:,.1f}。",
    ),
    "audit.batch_sources": (
        "Different sources in a batch of {rows:,} rows, on average.",
        "每批 {rows:,} 行平均包含多少个不同来源。",
    ),
    "audit.shard_balance": (
        "How much the mix of sources varies between the stored shards; chance alone gives 1.",
        "各来源的比例在已存分片之间变化多大；完全随机为 1。",
    ),
    "audit.shard_sources": (
        "Different sources in a stored shard, on average.",
        "每个已存分片平均包含多少个不同来源。",
    ),
    "audit.lag": (
        "How alike the input places of two rows are that are read {lags} steps apart: the strongest correlation.",
        "读取时相隔 {lags} 步的两行，在输入中的位置有多相似：最强的相关系数。",
    ),
    "audit.parity": (
        "Whether odd rows of the input come at certain places: the strongest correlation of a low bit of the row "
        "with a bit of the place.",
        "输入中的奇数行是否总落在某些位置：行号低位与位置各位之间最强的相关系数。",
    ),
    # tokens coloured by loss
    "mask.conversation": ("Conversation", "对话"),
    "mask.is_trained": ("{role} · trained", "{role} · 参与训练"),
    "mask.tokens": ("Tokens", "Token"),
    "mask.counts_row": (
        "{n:,} places · {trained:,} trained · {documents:,} documents · {padding:,} padding ({share})",
        "{n:,} 个位置 · {trained:,} 个参与训练 · {documents:,} 篇文档 · {padding:,} 个填充（{share}）",
    ),
    "mask.legend_word": ("word", "词"),
    "mask.legend_trained": ("trained (bold, underlined)", "参与训练（粗体、下划线）"),
    "mask.legend_context": ("context", "上下文"),
    "mask.legend_control": ("control (boxed)", "控制（方框）"),
    "mask.legend_padding": ("padding (hatched)", "填充（斜线）"),
    "mask.legend_eos": ("EOS: a document ends (green box)", "EOS：文档结束（绿色方框）"),
    "mask.legend_documents": (
        "a document begins; the underline's colour tells neighbours apart",
        "文档开始；下划线颜色用于区分相邻文档",
    ),
    "mask.legend_document": ("a document begins", "文档开始"),
    "mask.legend_symbols": ("↵ line feed · → tab", "↵ 换行 · → 制表符"),
    "mask.hint": (
        "Point at a token, or reach it with the Tab key, to see what it is and why it is or is not trained.",
        "将指针移到 token 上，或用 Tab 键移到它，即可查看它是什么、为何参与或不参与训练。",
    ),
    "mask.row_label": ("The tokens in order, each with its explanation", "按顺序排列的 token，各附说明"),
    "mask.detail": ("id {id} · position {at} · bytes {bytes}", "id {id} · 位置 {at} · 字节 {bytes}"),
    "mask.yes": ("Trained.", "参与训练。"),
    "mask.no": ("Not trained.", "不参与训练。"),
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
    "mask.no_records": ("There is no record to show.", "没有可显示的记录。"),
    "mask.span": (
        "Places {start:,} to {stop:,} of {all:,} are drawn.",
        "绘制 {all:,} 个位置中的第 {start:,} 至 {stop:,} 个。",
    ),
    # two folders of shards
    "difference.nothing": (
        "Nothing is compared: the parameter `other` is empty.",
        "未作比较：参数 `other` 为空。",
    ),
    "difference.one": ("these shards", "当前分片"),
    "difference.other": ("the other shards", "另一份分片"),
    "difference.setting": ("in the manifest", "清单中的项"),
    "difference.settings": ("What the manifests say differently", "两份清单的不同之处"),
    "difference.settings_n": ("The manifests differ in {n:,} settings.", "两份清单有 {n:,} 项设置不同。"),
    "difference.settings_same": (
        "Both manifests say the same of how the shards were made.",
        "两份清单对制作方式的记录相同。",
    ),
    "difference.same": (
        "All {n:,} documents are the same in both: same ids, same targets.",
        "全部 {n:,} 篇文档在两份中相同：id 相同，目标相同。",
    ),
    "difference.differs": (
        "{n:,} of {all:,} documents differ ({share}). {one:,} tokens are trained only in these shards, "
        "{other:,} only in the other ones.",
        "{all:,} 篇文档中有 {n:,} 篇不同（{share}）。{one:,} 个 token 只在当前分片中参与训练，"
        "{other:,} 个只在另一份中参与训练。",
    ),
    "difference.repeated": (
        "Ids of documents repeat: {one:,} times in these shards, {other:,} times in the other ones. "
        "Equal documents are matched with each other first.",
        "文档 id 有重复：当前分片 {one:,} 次，另一份 {other:,} 次。内容相同的文档优先配对。",
    ),
    "difference.total": ("all sources", "所有来源"),
    "difference.documents": ("Documents", "文档"),
    "difference.documents_one": ("in these", "当前"),
    "difference.documents_other": ("in the other", "另一份"),
    "difference.equal": ("the same", "相同"),
    "difference.other_mask": ("other targets", "目标不同"),
    "difference.other_weight": ("other weights", "权重不同"),
    "difference.shorter": ("one is shorter", "一份较短"),
    "difference.other_ids": ("other ids", "id 不同"),
    "difference.torn": ("in pieces that do not join up", "片段无法拼合"),
    "difference.only_one": ("only in these", "仅在当前"),
    "difference.only_other": ("only in the other", "仅在另一份"),
    "difference.tokens": ("Tokens", "Token"),
    "difference.both": ("trained in both", "两份都训练"),
    "difference.trained_one": ("trained only in these", "仅当前训练"),
    "difference.trained_other": ("trained only in the other", "仅另一份训练"),
    "difference.neither": ("trained in neither", "两份都不训练"),
    "difference.weighted": ("trained in both, with other weights", "两份都训练但权重不同"),
    "difference.rest_one": ("not compared, in these", "未比较（当前）"),
    "difference.rest_other": ("not compared, in the other", "未比较（另一份）"),
    "difference.places": ("Where the changed targets stand", "变化的目标位于何处"),
    "difference.place": ("where", "位置"),
    "difference.apart": ("apart from what both train (whole answers)", "不与共同目标相邻（整个回答）"),
    "difference.behind": ("right behind what both train", "紧接在共同目标之后"),
    "difference.before": ("right before what both train", "紧接在共同目标之前"),
    "difference.between": ("between tokens both train", "夹在共同目标之间"),
    "difference.ids": ("The commonest of them", "其中最常见的"),
    "difference.token": ("token", "token"),
    "difference.document": (
        "A document that differs ({at:,} of {n:,} examples)",
        "一篇不同的文档（第 {at:,} / {n:,} 个示例）",
    ),
    "difference.kind_other_mask": (
        "{document}: the same ids, other targets.",
        "{document}：id 相同，目标不同。",
    ),
    "difference.kind_other_weight": (
        "{document}: the same ids and targets, other weights.",
        "{document}：id 与目标相同，权重不同。",
    ),
    "difference.kind_shorter": (
        "{document}: one ends at token {first:,}, the other goes on.",
        "{document}：一份在第 {first:,} 个 token 处结束，另一份继续。",
    ),
    "difference.kind_other_ids": (
        "{document}: the ids differ from token {first:,} on; what follows is not compared.",
        "{document}：从第 {first:,} 个 token 起 id 不同；其后不再比较。",
    ),
    "difference.kind_torn": (
        "{document}: its pieces do not join up in one of the folders; it is not compared.",
        "{document}：在其中一份里片段无法拼合，未作比较。",
    ),
    "difference.kind_only_one": ("{document}: only in these shards.", "{document}：仅在当前分片中。"),
    "difference.kind_only_other": ("{document}: only in the other shards.", "{document}：仅在另一份分片中。"),
    "difference.lies": ("These shards: {one}. The other: {other}.", "当前分片：{one}。另一份：{other}。"),
    "difference.spot": ("{file}, row {row:,}, place {at:,}", "{file} 第 {row:,} 行第 {at:,} 位"),
    "difference.examples": ("The examples", "示例"),
    "difference.at": ("example", "示例"),
    "difference.a_document": ("document", "文档"),
    "difference.kind": ("what differs", "不同之处"),
    "difference.more_runs": ("{n:,} more runs are not drawn.", "另有 {n:,} 段未绘制。"),
    "difference.state_neither": ("trained in neither", "两份都不训练"),
    "difference.state_trained_one": ("trained only in these shards", "仅在当前分片中训练"),
    "difference.state_trained_other": ("trained only in the other", "仅在另一份中训练"),
    "difference.state_both": ("trained in both", "两份都训练"),
    "difference.state_same": ("the same in both", "两份相同"),
    "difference.state_other_ids": ("not compared", "未比较"),
    "difference.no_token": ("no token", "无 token"),
    "difference.between_tokens": ("{n} tokens", "{n} 个 token"),
    # findings of the doctor: the page, then a sentence for each rule
    "doctor.title": ("What goes wrong with this template, and what to do", "这个模板哪里会出问题，以及怎么办"),
    "doctor.sum": (
        "errors {errors:,} · warnings {warnings:,} · notes {notes:,}",
        "错误 {errors:,} · 警告 {warnings:,} · 提示 {notes:,}",
    ),
    "doctor.none": ("Nothing was found.", "没有发现问题。"),
    "doctor.error": ("error", "错误"),
    "doctor.warning": ("warning", "警告"),
    "doctor.note": ("note", "提示"),
    "doctor.rows": ("{n:,} of {of:,} rows: {rows}", "{of:,} 行中的 {n:,} 行：{rows}"),
    "doctor.more": ("and {n:,} more", "另有 {n:,} 个"),
    "doctor.template": ("template {name}", "模板 {name}"),
    "doctor.tokens": ("Tokens", "Token"),
    "doctor.token_at": ("row {row:,} · position {position:,} · id {id}", "第 {row:,} 行 · 位置 {position:,} · id {id}"),
    "doctor.token_probe": (
        "in a conversation of ours · position {position:,} · id {id}",
        "在内置对话中 · 位置 {position:,} · id {id}",
    ),
    "doctor.token_alone": ("id {id}", "id {id}"),
    "doctor.token_none": ("no id", "无 id"),
    "doctor.repair": ("Repair", "修复"),
    "doctor.same_repair": ("the same as for {rule}", "与 {rule} 的修复相同"),
    "doctor.proven": ("proven", "已验证"),
    "doctor.not_proven": ("advice, not proven", "建议，未经验证"),
    "doctor.diff": ("The template, changed", "修改后的模板"),
    "doctor.symptoms": ("By symptom", "按症状查找"),
    "doctor.never_stops": ("The model never stops", "模型停不下来"),
    "doctor.repeats_prompt": ("It repeats the prompt", "模型重复提示"),
    "doctor.ignores_system": ("It ignores the system text", "模型忽略系统提示"),
    "doctor.starts_with_blank": ("Its answers start with a blank", "回答以空格开头"),
    "doctor.loss_zero_or_nan": ("The loss is 0 or NaN", "loss 为 0 或 NaN"),
    "doctor.found": ("found", "已发现"),
    "doctor.ruled_out": ("ruled out", "已排除"),
    "doctor.not_known": ("not known", "未知"),
    "doctor.clear": ("every cause is ruled out", "所有原因均已排除"),
    "doctor.open": ("no cause found; {n:,} could not be looked at", "未发现原因；{n:,} 项无法检查"),
    "doctor.causes": ("causes found: {n:,}", "发现 {n:,} 个原因"),
    "doctor.cause": ("cause", "原因"),
    "doctor.TEMPLATE_FAILS": ("The template does not render.", "模板无法渲染。"),
    "doctor.PROMPT_NOT_RENDERED": (
        "The whole conversation renders, its beginning alone does not.",
        "整段对话可以渲染，但单独的开头不能。",
    ),
    "doctor.DOUBLE_BOS": ("The text would begin with BOS twice.", "文本开头会出现两个 BOS。"),
    "doctor.DOUBLE_EOS": ("The text would end with EOS twice.", "文本结尾会出现两个 EOS。"),
    "doctor.PAD_IS_EOS": ("Padding and the end of a text are one token.", "填充与文本结尾是同一个 token。"),
    "doctor.MARKER_NOT_SINGLE_TOKEN": (
        "A marker of the template is no token and is cut into pieces.",
        "模板的某个标记不是单个 token，会被切碎。",
    ),
    "doctor.EOT_NOT_TRAINED": ("The token that ends an answer is not trained.", "结束回答的 token 没有参与训练。"),
    "doctor.NO_TERMINATOR_MID_TURN": (
        "Only the last answer ends in a stop token.",
        "只有最后一个回答以停止 token 结尾。",
    ),
    "doctor.HEADER_IN_TRAINED_SPAN": (
        "The header of an answer, which the prompt supplies, is trained.",
        "回答的头部由提示提供，却参与了训练。",
    ),
    "doctor.TEXT_AFTER_EOT_TRAINED": (
        "Text behind the stop token is trained, where decoding has already stopped.",
        "停止 token 之后的文本参与了训练，而解码早已停止。",
    ),
    "doctor.PROMPT_IN_TRAINED_SPAN": ("Parts of the prompt are trained.", "提示的一部分参与了训练。"),
    "doctor.ANSWER_NOT_IN_TAGS": (
        "Parts of an answer are outside the generation tags and are not trained.",
        "回答的一部分在 generation 标签之外，没有参与训练。",
    ),
    "doctor.GENERATION_PROMPT_MISMATCH": (
        "At inference answers begin behind a prompt that training never shows.",
        "推理时回答接在训练中从未出现的提示之后。",
    ),
    "doctor.NOT_PREFIX_PRESERVING": (
        "What came before renders otherwise once more follows, so positions shift.",
        "后面有内容时，前面的部分渲染得不同，位置因此错开。",
    ),
    "doctor.BORDER_TOKEN_MERGES": (
        "One token lies across the border of an answer, so its mask cannot be proven.",
        "有一个 token 跨越回答的边界，掩码无法验证。",
    ),
    "doctor.EMPTY_THINK_TRAINED": (
        "Answers without a thought are trained with an empty one.",
        "没有思考的回答会带着空的思考块参与训练。",
    ),
    "doctor.REASONING_DROPPED_FROM_HISTORY": (
        "Thoughts of earlier answers are not in the text.",
        "较早回答的思考不在文本中。",
    ),
    "doctor.REASONING_DROPPED": ("Thoughts are not in the text.", "思考不在文本中。"),
    "doctor.SYSTEM_DROPPED_IN_TRAINING": (
        "The system text is in the prompt at inference and missing in training.",
        "系统提示在推理时存在，在训练时缺失。",
    ),
    "doctor.SYSTEM_DROPPED": ("The system text is not in the text.", "系统提示不在文本中。"),
    "doctor.MID_SYSTEM_DROPPED": ("A system text in the middle is not in the text.", "对话中间的系统提示不在文本中。"),
    "doctor.SYSTEM_REFUSED": (
        "The template refuses system messages where the data have them.",
        "模板拒绝数据中的系统消息。",
    ),
    "doctor.DEFAULT_SYSTEM_INJECTED": (
        "The template adds a text of its own that is not in the data.",
        "模板会加入数据中没有的文本。",
    ),
    "doctor.RENDER_DEPENDS_ON_DATE": (
        "The text holds today's date: the same data give other ids tomorrow.",
        "文本含有当天日期：同样的数据明天会得到不同的 id。",
    ),
    "doctor.CONTENT_TRIMMED": (
        "Blanks at the ends of messages are lost, code loses its indent.",
        "消息首尾的空白会丢失，代码会失去缩进。",
    ),
    "doctor.CONTENT_CUT": ("A part of what a message says is not in the text.", "消息内容的一部分不在文本中。"),
    "doctor.CONTENT_NULL_FAILS": ("Null content fails.", "content 为 null 时渲染失败。"),
    "doctor.MESSAGE_DROPPED": ("Whole messages are not in the text.", "有整条消息不在文本中。"),
    "doctor.ROLE_REFUSED": ("The template refuses a role as the data spell it.", "模板拒绝数据中的角色名。"),
    "doctor.ROLES_NOT_ALTERNATING": (
        "The template wants roles to alternate, and in the data they do not.",
        "模板要求角色交替，而数据并非如此。",
    ),
    "doctor.TOOLS_NOT_RENDERED": ("The tools are not in the text.", "工具说明不在文本中。"),
    "doctor.TOOLS_REFUSED": ("The template refuses calls or results of tools.", "模板拒绝工具调用或工具结果。"),
    "doctor.TOOL_CALLS_DROPPED": (
        "The calls the model should learn are not in the text.",
        "模型应学会的工具调用不在文本中。",
    ),
    "doctor.TOOL_RESULT_DROPPED": ("What a tool answered is not in the text.", "工具的返回结果不在文本中。"),
    "doctor.TOOL_ARGUMENTS_DICT_FAIL": (
        "Arguments of calls given as mappings fail.",
        "以映射给出的调用参数会渲染失败。",
    ),
    "doctor.TOOL_ARGUMENTS_STRING_FAIL": (
        "Arguments of calls given as JSON text fail.",
        "以 JSON 文本给出的调用参数会渲染失败。",
    ),
    "doctor.STRUCT_PADDING_RENDERED": (
        "Nulls a table added to tools or arguments are printed into the text.",
        "表格给工具或参数补上的 null 被写进了文本。",
    ),
    "doctor.LITERAL_SPECIAL_IN_CONTENT": (
        "The data spell control tokens: text here, but other programs obey them.",
        "数据中写有控制 token：此处按文本处理，其他程序会当真。",
    ),
    "doctor.NO_TARGET": ("A row has no token to train.", "有的行没有可训练的 token。"),
    "doctor.TOO_LONG": ("Rows are longer than the model takes.", "有的行超过模型的长度上限。"),
    "doctor.NO_GENERATION_PROMPT": ("The template knows no generation prompt.", "模板没有生成提示。"),
    "doctor.NO_GENERATION_TAGS": ("The template has no generation tags.", "模板没有 generation 标签。"),
    "doctor.ANSWER_STARTS_WITH_BLANK": (
        "The template puts a blank before every answer, and it is trained.",
        "模板在每个回答前放了空白，并参与训练。",
    ),
    "doctor.PREFERENCE_PROMPT_DIFFERS": (
        "The two answers of a preference stand behind different prompts.",
        "偏好对的两个回答前面的提示不同。",
    ),
    "doctor.RECORD_UNREADABLE": ("Rows that cannot be read.", "有的行无法读取。"),
    "doctor.FILE_UNREADABLE": ("A file cannot be read.", "有文件无法读取。"),
    "doctor.WEIGHTS_NOT_READ": ("The weights were not looked at.", "未查看权重。"),
    "doctor.NO_TEMPLATE": ("No file holds a chat template.", "没有文件含有对话模板。"),
    "doctor.TEMPLATE_EMPTY": ("The chat template is empty.", "对话模板为空。"),
    "doctor.TEMPLATE_ONLY_FOR_PROCESSOR": (
        "Only a processor reads the template, the tokenizer has none.",
        "模板只供 processor 使用，分词器没有模板。",
    ),
    "doctor.SEVERAL_TEMPLATES": ("There are several chat templates.", "有多个对话模板。"),
    "doctor.NO_DEFAULT_TEMPLATE": ("No chat template is called default.", "没有名为 default 的对话模板。"),
    "doctor.TEMPLATE_FILES_CONFLICT": ("Two files with templates shut each other out.", "两个模板文件互相冲突。"),
    "doctor.TEMPLATES_DIFFER": ("Two files hold different templates.", "两个文件中的模板不同。"),
    "doctor.EOS_NOT_A_TOKEN": ("The end token is no token of the tokenizer.", "结束 token 不在分词器中。"),
    "doctor.PAD_NOT_A_TOKEN": ("The padding token is no token of the tokenizer.", "填充 token 不在分词器中。"),
    "doctor.BOS_NOT_A_TOKEN": ("The begin token is no token of the tokenizer.", "起始 token 不在分词器中。"),
    "doctor.SPECIAL_NOT_A_TOKEN": ("A special token is no token of the tokenizer.", "某个特殊 token 不在分词器中。"),
    "doctor.SPECIAL_TOKENS_DISAGREE": ("Two files name different special tokens.", "两个文件指定了不同的特殊 token。"),
    "doctor.NO_STOP_ID": ("No file names an id at which generation stops.", "没有文件指定生成停止的 id。"),
    "doctor.EOS_DISAGREES": ("Files disagree about the end token.", "各文件的结束 token 不一致。"),
    "doctor.PAD_DISAGREES": ("Files disagree about the padding token.", "各文件的填充 token 不一致。"),
    "doctor.BOS_DISAGREES": ("Files disagree about the begin token.", "各文件的起始 token 不一致。"),
    "doctor.STOP_TOKEN_NOT_IN_GENERATION_CONFIG": (
        "Generation does not stop at the token the template ends answers with.",
        "模板结束回答所用的 token 不会让生成停止。",
    ),
    "doctor.TERMINATOR_IS_NOT_EOS": (
        "Answers end with another token than the tokenizer's.",
        "回答的结束 token 与分词器的不同。",
    ),
    "doctor.ID_NOT_A_TOKEN": ("A configuration names an id that no token has.", "配置中的 id 没有对应的 token。"),
    "doctor.PAD_MISSING": ("There is no padding token.", "没有填充 token。"),
    "doctor.PAD_IS_STOP": ("Padding is also a token at which generation stops.", "填充 token 同时也是停止 token。"),
    "doctor.BOS_ADDED_BY_TOKENIZER": ("The tokenizer puts BOS before every text.", "分词器会在每段文本前加 BOS。"),
    "doctor.EOS_ADDED_BY_TOKENIZER": ("The tokenizer puts EOS behind every text.", "分词器会在每段文本后加 EOS。"),
    "doctor.BOS_FLAG_DISAGREES": (
        "What a file says about adding BOS is not what the tokenizer does.",
        "文件中关于添加 BOS 的说明与分词器的行为不符。",
    ),
    "doctor.EOS_FLAG_DISAGREES": (
        "What a file says about adding EOS is not what the tokenizer does.",
        "文件中关于添加 EOS 的说明与分词器的行为不符。",
    ),
    "doctor.ADDED_TOKEN_NOT_SPECIAL": (
        "A marker is not special, so decoding leaves it in.",
        "某个标记不是特殊 token，解码时会保留。",
    ),
    "doctor.ADDED_TOKEN_STRIPS": ("A token takes away the blanks beside it.", "某个 token 会吃掉旁边的空白。"),
    "doctor.ADDED_TOKEN_SINGLE_WORD": (
        "A token is found only where no letter stands beside it.",
        "某个 token 只有旁边没有字母时才被识别。",
    ),
    "doctor.TOKEN_UNREACHABLE": ("The spelling of a token does not become its id.", "某个 token 的写法得不到它的 id。"),
    "doctor.LOOKALIKE_TOKENS": ("Different tokens look alike.", "不同的 token 看起来一样。"),
    "doctor.TOKEN_IDS_DISAGREE": ("Two files give a token different ids.", "两个文件给同一 token 的 id 不同。"),
    "doctor.ADDED_TOKEN_MISSING": ("A declared token is not in the tokenizer.", "声明的 token 不在分词器中。"),
    "doctor.ADDED_TOKEN_FLAGS_DISAGREE": (
        "Two files give a token different flags.",
        "两个文件给同一 token 的标志不同。",
    ),
    "doctor.EMBEDDINGS_DISAGREE": (
        "The weights have other rows than the configuration says.",
        "权重的行数与配置不符。",
    ),
    "doctor.VOCAB_EXCEEDS_EMBEDDINGS": (
        "Ids of the tokenizer have no row in the embedding.",
        "分词器的某些 id 在嵌入中没有对应的行。",
    ),
    "doctor.LENGTH_DISAGREES": ("Files disagree about the longest text.", "各文件的最大长度不一致。"),
    "doctor.TRUNCATION_STORED": ("The tokenizer file holds settings that cut texts.", "分词器文件中存有截断设置。"),
    "doctor.PADDING_STORED": ("The tokenizer file holds settings that pad texts.", "分词器文件中存有填充设置。"),
    "doctor.DECODE_CLEANS_BLANKS": ("Decoding takes blanks away.", "解码会去掉空格。"),
    "doctor.TOKENIZER_DROPS_TEXT": ("The tokenizer does not give texts back as they were.", "分词器不能原样还原文本。"),
    "doctor.TOKENIZER_ADDS_BLANK": ("The tokenizer puts a blank before a text.", "分词器会在文本前加空格。"),
    # the mixture planner
    "mixture.title": ("What does each source give?", "每个来源给出多少？"),
    "mixture.sub": ("{sources:,} sources, {documents:,} documents", "{sources:,} 个来源，{documents:,} 篇文档"),
    "mixture.sub_units": (", {units:,} {unit}", "，{units:,} {unit}"),
    "mixture.tokens": ("tokens", "token"),
    "mixture.none": ("There is no source to mix.", "没有可混合的来源。"),
    "mixture.gives": (
        "The mixture holds {given:,} {unit}: {share} of what there is",
        "混合后共 {given:,} {unit}：为现有总量的 {share}",
    ),
    "mixture.of_budget": (", {part} of the {budget:,} asked for", "，为所要求的 {budget:,} 的 {part}"),
    "mixture.missing_in_all": ("; {missing:,} are missing", "；缺少 {missing:,}"),
    "mixture.remark_missing": (
        "{source} cannot give its share: {value} {unit} of it are missing, because no source may come more often than "
        "max_epochs. Lower its weight or the budget, or raise max_epochs.",
        "{source} 无法给出应有的份额：受 max_epochs 限制，缺少 {value} {unit}。请降低其权重或预算，或提高 max_epochs。",
    ),
    "mixture.remark_repeated": (
        "{source} comes {value} times. Up to {many} times, repeated text is nearly as good as new; beyond that each "
        "further time gives less (Muennighoff et al. 2023).",
        "{source} 重复 {value} 遍。重复不超过 {many} 遍时几乎与新数据一样好；超过后每一遍的收益递减"
        "（Muennighoff et al. 2023）。",
    ),
    "mixture.remark_nothing": (
        "{source} gives nothing of the {value} {unit} asked of it: it has none, or its documents are too long for so "
        "small a share.",
        "{source} 应给出 {value} {unit}，但一点也没有给出：它没有内容，或文档过长而份额过小。",
    ),
    "mixture.remark_rough": (
        "One document of {source} is about {value} of what it gives: its share can be met only as nearly as whole "
        "documents allow.",
        "{source} 的一篇文档约占其给出总量的 {value}：份额只能精确到整篇文档。",
    ),
    "mixture.remark_scarcest": (
        "{source} ends first and decides how large the mixture is: the other sources leave {value} {unit} over. Give a "
        "budget to repeat it, or lower its weight.",
        "{source} 最先用完，决定了混合的规模：其他来源剩余 {value} {unit}。若要重复使用它，请给出预算；或降低其权重。",
    ),
    "mixture.remark_left_out": (
        "{source} has the weight 0: its {value} {unit} are left out.",
        "{source} 的权重为 0：其 {value} {unit} 不被使用。",
    ),
    "mixture.more_remarks": ("{n:,} more remarks; see the table", "另有 {n:,} 条提示，见表"),
    "mixture.bars": ("The share asked of each source, and the share it gives", "各来源应占的比例与实际给出的比例"),
    "mixture.asked": ("asked", "应占"),
    "mixture.given": ("given", "给出"),
    "mixture.new": ("given, for the first time", "给出，首次出现"),
    "mixture.again": ("given again", "重复给出"),
    "mixture.line": (
        "{epochs} epochs · gives {given:,}, has {units:,} {unit}",
        "{epochs} 遍 · 给出 {given:,}，现有 {units:,} {unit}",
    ),
    "mixture.line_repeats": ("{n:,} again", "重复 {n:,}"),
    "mixture.line_missing": ("{n:,} missing", "缺少 {n:,}"),
    "mixture.line_left": ("{n:,} left over", "剩余 {n:,}"),
    "mixture.more": ("{n:,} more sources", "另有 {n:,} 个来源"),
    "mixture.table": ("In numbers", "数值"),
    "mixture.in_units": ("Numbers count {unit}.", "数值单位：{unit}。"),
    "mixture.has": ("has", "现有"),
    "mixture.share_asked": ("share asked", "应占比例"),
    "mixture.share_given": ("share given", "给出比例"),
    "mixture.epochs": ("epochs", "遍数"),
    "mixture.repeats": ("again", "重复"),
    "mixture.missing": ("missing", "缺少"),
    "mixture.left_over": ("left over", "剩余"),
    "mixture.copies": ("documents given, with copies", "给出的文档数（含重复）"),
    "mixture.note_planned": (
        "Planned from sizes alone. What each source gives will differ from this by half a document of it at most; who "
        "comes once more than the others is drawn by a hash of the document's id.",
        "仅根据规模规划。每个来源实际给出的量与此相差至多半篇文档；哪些文档多出现一次由其 id 的哈希决定。",
    ),
    "mixture.note_counted": ("Counted from the documents chosen.", "根据选出的文档统计。"),
    "mixture.way": ("shares", "比例"),
    "mixture.way_natural": ("by size", "按规模"),
    "mixture.way_unimax": ("UniMax", "UniMax"),
    "mixture.way_weights": ("by weights", "按权重"),
    "mixture.type_temperature": ("temperature", "温度"),
    "mixture.type_budget": ("budget", "预算"),
    "mixture.type_max_epochs": ("max_epochs", "max_epochs"),
    "mixture.type_weights": ("weights", "权重"),
    # near duplicates
    "pairs.title": ("Which documents are almost the same?", "哪些文档几乎相同？"),
    "pairs.sub": (
        "{n:,} documents by their {shingle} shingles: signatures of {num_perm} minima, {bands} bands of {rows} rows",
        "{n:,} 篇文档，按 {shingle} 片段比较，签名含 {num_perm} 个最小值，{bands} 段，每段 {rows} 行",
    ),
    "pairs.sampled": (
        "These are {share} of the documents: those whose first minimum lies in that share of all hashes, so that "
        "documents that are alike mostly come together. All numbers here are of them; what the run dropped in all "
        "stands in the ledger.",
        "以下是全部文档的 {share}：按签名首个最小值的取值区间抽取，因此相似的文档大多一起入选。"
        "本页数字都只针对它们；本次运行丢弃的总数见账目。",
    ),
    "pairs.none": ("There is no document to compare.", "没有可比较的文档。"),
    "pairs.who": ("Who goes", "丢弃多少"),
    "pairs.ran": ("the run, at {limit} ({bands} × {rows})", "本次运行，阈值 {limit}（{bands} × {rows}）"),
    "pairs.now": ("now, at {limit} ({bands} × {rows}), estimated", "当前，阈值 {limit}（{bands} × {rows}），估计值"),
    "pairs.total": (
        "{gone:,} documents go ({share}), {kept:,} stay",
        "丢弃 {gone:,} 篇文档（{share}），保留 {kept:,} 篇",
    ),
    "pairs.now_note": (
        "The run compared texts: each that went is proven to be that similar to one that stays. What would go at "
        "another threshold is estimated from the signatures of all documents, never from a sample of them; of a large "
        "family that is a little less alike the estimate lets too many go.",
        "本次运行比较了原文：每篇被丢弃的文档都已证实与某篇保留的文档相似到该程度。其他阈值下的数量由全部文档的签名估计，"
        "从不依据文档抽样；对相似度略低于阈值的大家族，估计值会偏多。",
    ),
    "pairs.alarm": (
        "{source} would lose {share} of its documents ({gone:,} of {documents:,}), more than {limit}: look at its "
        "pairs before you go on.",
        "{source} 将失去 {share} 的文档（{documents:,} 篇中的 {gone:,} 篇），超过 {limit}：请先查看其重复文档再继续。",
    ),
    "pairs.more_alarms": ("{n:,} more sources would lose most of themselves.", "另有 {n:,} 个来源将失去大部分文档。"),
    "pairs.borderline": ("Pairs next to the threshold", "阈值附近的文档对"),
    "pairs.above": (
        "At {limit} and above: {n} nearest pairs; of those the bands find, one goes",
        "达到 {limit}：最近的 {n} 对，分段找出的每对丢弃一篇",
    ),
    "pairs.below": ("Below {limit}: {n} nearest pairs, both stay", "低于 {limit}：最近的 {n} 对，两篇都保留"),
    "pairs.nobody": ("There is no such pair.", "没有这样的文档对。"),
    "pairs.shared": ("in both", "两篇共有"),
    "pairs.only": ("in one of them", "仅一篇有"),
    "pairs.pair": ("exact Jaccard similarity {value} {sign} {limit}", "精确 Jaccard 相似度 {value} {sign} {limit}"),
    "pairs.run_dropped": ("the run dropped the second for the first", "本次运行丢弃了后者，保留前者"),
    "pairs.run_kept": ("the run kept both", "本次运行两篇都保留"),
    "pairs.not_met": ("these bands do not bring them together", "当前分段未找出这一对"),
    "pairs.more_here": ("{n:,} more stretches", "另有 {n:,} 段"),
    "pairs.thresholds": ("Who would go at other thresholds", "其他阈值下丢弃多少"),
    "pairs.threshold": ("threshold", "阈值"),
    "pairs.bands": ("bands × rows", "段 × 行"),
    "pairs.would_go": ("would go", "将丢弃"),
    "pairs.against_run": ("against the run", "与本次运行之差"),
    "pairs.thresholds_note": (
        "Each with bands chosen for it, unless you chose some; the starred row is the present one.",
        "除非另行指定，每个阈值都使用为其选定的分段；带星号的行为当前设置。",
    ),
    "pairs.axis_threshold": ("threshold", "阈值"),
    "pairs.estimated": ("share that would go, estimated from all signatures", "将丢弃的比例，由全部签名估计"),
    "pairs.legend_now": ("now", "当前"),
    "pairs.run_exact": ("the run, exact", "本次运行，精确值"),
    "pairs.sources": ("What each source loses", "各来源的损失"),
    "pairs.before": ("gone before", "此前已丢弃"),
    "pairs.by_run": ("gone in the run", "本次运行丢弃"),
    "pairs.by_now": ("would go now", "当前将丢弃"),
    "pairs.lost": ("lost in all", "合计损失"),
    "pairs.all": ("all sources", "全部来源"),
    "pairs.others": ("other sources", "其他来源"),
    "pairs.sources_note": (
        "Lost in all: gone before this step, and what would go now. ▲ marks a source that loses more than {limit}.",
        "合计损失：此步之前已丢弃的，加上当前将丢弃的。▲ 表示损失超过 {limit} 的来源。",
    ),
    "pairs.curve": (
        "What the bands find: 1 - (1 - J^{rows})^{bands}",
        "分段能找出多少：1 - (1 - J^{rows})^{bands}",
    ),
    "pairs.truth": (
        "{anchors:,} sampled documents were held against all others by their signatures, and {pairs:,} pairs compared "
        "exactly. Of the {reach:,} at {limit} or above the bands find {hit:,} ({share}); right at {limit} the curve "
        "promises {expected}.",
        "抽取 {anchors:,} 篇文档，按签名与其他所有文档对照，并精确比较了 {pairs:,} 对。相似度达到 {limit} 的"
        " {reach:,} 对中，分段找出 {hit:,} 对（{share}）；恰在 {limit} 处，曲线保证 {expected}。",
    ),
    "pairs.similarity": ("exact similarity", "精确相似度"),
    "pairs.pairs": ("pairs", "文档对"),
    "pairs.found": ("found", "找出"),
    "pairs.missed": ("not found", "未找出"),
    "pairs.found_share": ("share found", "找出比例"),
    "pairs.by_curve": ("by the curve", "曲线预期"),
    "pairs.curve_note": (
        "A pair that is found is compared exactly before anything goes, so one below the threshold costs time and no "
        "document. Pairs whose signatures share less than 40 % are not in the sample: there it leans to found ones. "
        "Pairs of one cluster are found or missed together, so the sample may stray from the curve.",
        "找出的文档对在丢弃前都会精确比较，因此低于阈值的只费时间，不会误删。签名相同不足 40 % 的文档对不在样本中，"
        "所以该处附近的样本偏向已找出者。同一簇的文档对往往一同找出或一同遗漏，样本因此可能偏离曲线。",
    ),
    "pairs.curve_label": (
        "Share of pairs that {bands} bands of {rows} rows find, by similarity: {share} at {limit}. Found of the "
        "sampled pairs: {said}",
        "{bands} 段、每段 {rows} 行按相似度找出的比例：{limit} 处为 {share}。抽样文档对中找出的：{said}",
    ),
    "pairs.axis_similarity": ("exact Jaccard similarity", "精确 Jaccard 相似度"),
    "pairs.legend_curve": ("what the curve promises", "曲线所保证的"),
    "pairs.legend_share": ("share found in the sample", "样本中找出的比例"),
    "pairs.legend_found": ("a pair, found", "一对，已找出"),
    "pairs.legend_missed": ("a pair, not found", "一对，未找出"),
    "pairs.clusters": ("Largest clusters of the run", "本次运行中最大的簇"),
    "pairs.clusters_note": (
        "First the document that stays, then some that went for it, the least alike first.",
        "先列保留的文档，再列因它而丢弃的几篇，相似度最低的在前。",
    ),
    "pairs.cluster": ("{n:,} documents, {went:,} of them went", "{n:,} 篇文档，其中丢弃 {went:,} 篇"),
    "pairs.no_clusters": ("The run dropped no near duplicate.", "本次运行没有丢弃近似重复文档。"),
    "pairs.families": ("Families made from one template", "同一模板生成的文档"),
    "pairs.families_note": (
        "{n:,} families, {documents:,} documents, told apart by nothing but digits, letter case or white space. They "
        "go or stay by their similarity like any other; the digits are marked.",
        "{n:,} 组共 {documents:,} 篇文档，仅数字、大小写或空白不同。去留与其他文档一样由相似度决定；数字已标出。",
    ),
    "pairs.family": (
        "{n:,} documents from one template, {went:,} of them went",
        "同一模板的 {n:,} 篇文档，其中丢弃 {went:,} 篇",
    ),
    "pairs.no_families": ("No two documents differ in digits alone.", "没有仅数字不同的文档。"),
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
    "packing.filled": ("places that hold a token", "装有 token 的位置"),
    "packing.outside": ("attention outside documents", "文档之外的注意力"),
    "packing.legend_eos": ("EOS: a document ends", "EOS：文档结束"),
    "packing.strip_eos": (", EOS {n:,}", "，EOS {n:,} 个"),
    "packing.note_lost": (
        "★ is the algorithm chosen. Lost are tokens of documents longer than a pack, or of a tail that is dropped.",
        "★ 为所选算法。丢失的是比一包更长的文档或被丢弃的尾部的 token。",
    ),
    "packing.note_outside": (
        "Attention outside documents: the share of the pack size squared that joins places of different documents, or "
        "padding, where no mask keeps them apart.",
        "文档之外的注意力：若不用掩码隔开，打包长度的平方中连接不同文档或填充的位置所占的比例。",
    ),
    "packing.note_trained": (
        "Padding and trained are shares of all stored places.",
        "填充与参与训练为占全部存储位置的比例。",
    ),
    "packing.sweep": ("All algorithms over many pack sizes", "各种打包长度下的所有算法"),
    "packing.sweep_note": (
        "Shares of all places, documents, tokens, and of the attention. "
        "The broken upright line is the pack size chosen.",
        "分别为占全部位置、文档、token 及注意力的比例。竖虚线为所选打包长度。",
    ),
    "packing.numbers": ("the same in numbers", "对应的数值"),
    "packing.none": ("There is no document to pack.", "没有可打包的文档。"),
    "packing.size": ("pack size", "打包长度"),
    # limits of quality rules, rehearsed
    "pii.title": ("Which personal data stands in these documents?", "这些文档中有哪些个人信息？"),
    "pii.sum": ("{finds:,} finds in {n:,} of {all:,} documents", "{all:,} 篇文档中有 {n:,} 篇，共发现 {finds:,} 处"),
    "pii.none": ("Nothing was found.", "没有发现个人信息。"),
    "pii.reveal": (
        "This page shows what was found as it stands in the documents; with reveal=False it shows dots instead.",
        "本页按原样显示所发现的内容；设 reveal=False 则以圆点代替。",
    ),
    "pii.hidden": (
        "Letters and digits of what was found are dots; what no rule found is shown as it is.",
        "所发现内容的字母和数字以圆点代替；规则未发现的内容按原样显示。",
    ),
    "pii.kinds": ("What was found, by kind", "各类发现"),
    "pii.kind": ("kind", "类别"),
    "pii.meaning": ("what it is", "含义"),
    "pii.becomes": ("becomes", "替换为"),
    "pii.finds": ("finds", "发现"),
    "pii.documents": ("documents", "文档"),
    "pii.kind_pem": ("private key blocks", "私钥块"),
    "pii.kind_key": ("API keys and tokens", "API 密钥与令牌"),
    "pii.kind_email": ("e-mail addresses", "电子邮箱地址"),
    "pii.kind_iban": ("bank accounts (IBAN)", "银行账号（IBAN）"),
    "pii.kind_cn_id": ("Chinese resident ids", "中国居民身份证号"),
    "pii.kind_card": ("payment cards", "银行卡号"),
    "pii.kind_ip": ("public internet addresses", "公网 IP 地址"),
    "pii.kind_cn_mobile": ("Chinese mobile numbers", "中国手机号"),
    "pii.kind_ssn": ("like US social security numbers", "类似美国社会安全号的号码"),
    "pii.kind_phone": ("telephone numbers", "电话号码"),
    "pii.evidence_check": ("a check digit", "校验码"),
    "pii.evidence_form": ("its form", "独特形式"),
    "pii.evidence_word": ("a word before it", "前面的词"),
    "pii.evidence_shape": ("only its shape", "仅凭外形"),
    "pii.evidence_note": (
        "What speaks for a find, most first: a check digit that is right, a form nothing else has, a word such as "
        "phone before it, or only its shape: there look twice.",
        "发现的依据，由强到弱：校验码正确；形式独特；前面有“电话”之类的词；仅凭外形，这一类请仔细查看。",
    ),
    "pii.sources": ("By source", "按来源"),
    "pii.source": ("source", "来源"),
    "pii.holding": ("with finds", "含发现的文档"),
    "pii.share": ("share", "占比"),
    "pii.more_sources": ("{n:,} more sources", "另有 {n:,} 个来源"),
    "pii.doubtful": ("Documents, the most doubtful finds first", "文档，最可疑的发现在前"),
    "pii.label": ("{n:,} finds of {document}, each in its place", "{document} 的 {n:,} 处发现及其位置"),
    "pii.masked": ("masked", "替换后"),
    "pii.more_finds": ("{n:,} more finds in this document, masked above", "本文档另有 {n:,} 处发现，上文中已替换"),
    "pii.more_documents": ("{n:,} more documents with finds", "另有 {n:,} 篇含发现的文档"),
    "quality.title": ("What does this limit keep, and what does it drop?", "这个阈值保留什么，丢弃什么？"),
    "quality.sub": (
        "{n:,} documents, {characters:,} characters; rules: {rules}",
        "{n:,} 篇文档，{characters:,} 个字符；规则：{rules}",
    ),
    "quality.passing": ("; {n:,} documents are in no rule set and pass", "；{n:,} 篇文档不属于任何规则集，直接通过"),
    "quality.none": ("There is no document that a rule looks at.", "没有规则所针对的文档。"),
    "quality.totals": ("All rules together", "全部规则合计"),
    "quality.preset": ("preset", "预设"),
    "quality.now": ("now", "现在"),
    "quality.total": (
        "kept {kept:,} documents ({share}) · dropped {dropped:,} · characters lost {lost:,} ({lost_share})",
        "保留 {kept:,} 篇（{share}）· 丢弃 {dropped:,} 篇 · 失去 {lost:,} 个字符（{lost_share}）",
    ),
    "quality.moved": (
        "Against the preset, {came:,} documents come back ({came_characters:,} characters) and {went:,} more go "
        "({went_characters:,} characters).",
        "与预设相比，{came:,} 篇文档被留回（{came_characters:,} 个字符），另有 {went:,} 篇被丢弃"
        "（{went_characters:,} 个字符）。",
    ),
    "quality.unmoved": ("No limit is moved.", "没有移动任何阈值。"),
    "quality.limit": ("The limit of {rule}", "{rule} 的阈值"),
    "quality.condition": (
        "kept while {signal} {sign} {now} (preset: {preset})",
        "当 {signal} {sign} {now} 时保留（预设：{preset}）",
    ),
    "quality.off": ("off", "关闭"),
    "quality.no_values": ("No document has a value for this signal.", "没有文档有该信号的值。"),
    "quality.histogram": ("Documents by their value", "按取值统计的文档"),
    "quality.histogram_note": (
        "The highest bar holds {top:,} documents; the outermost bars also hold what lies beyond them.",
        "最高的柱有 {top:,} 篇文档；最外侧的柱也包含范围之外的文档。",
    ),
    "quality.missing": (
        "{n:,} documents have no value, which counts as breaking the rule.",
        "{n:,} 篇文档没有取值，视为不符合规则。",
    ),
    "quality.by_others": ("dropped by other rules only", "仅被其他规则丢弃"),
    "quality.by_this": ("dropped by this rule", "被此规则丢弃"),
    "quality.numbers": ("the same in numbers", "对应的数值"),
    "quality.value": ("value", "取值"),
    "quality.borderline": ("Documents nearest to the limit", "最接近阈值的文档"),
    "quality.nearest_kept": ("kept: the {n:,} nearest", "保留：最近的 {n:,} 篇"),
    "quality.nearest_dropped": ("dropped by this limit: the {n:,} nearest", "被此阈值丢弃：最近的 {n:,} 篇"),
    "quality.nobody": ("none", "无"),
    "quality.also": ("also dropped by {rules}", "同时被 {rules} 丢弃"),
    "quality.rules": ("Each rule", "各条规则"),
    "quality.rule": ("rule", "规则"),
    "quality.falls": ("drops", "丢弃"),
    "quality.first": ("is the first to", "最先丢弃"),
    "quality.alone": ("is the only one to", "唯一丢弃"),
    "quality.first_before": ("first, by the preset", "最先（预设）"),
    "quality.rules_note": (
        "A document is counted under the first rule that drops it; what a rule drops alone comes back without it. "
        "* marks a limit that is moved.",
        "文档计入最先丢弃它的规则；某条规则唯一丢弃的文档，去掉该规则即可留回。* 表示阈值已移动。",
    ),
    "quality.silent": ("{n:,} rules of {rules} that drop nobody", "{rules} 中未丢弃任何文档的 {n:,} 条规则"),
    "quality.health": ("Is something odd about the rules?", "规则有何异常？"),
    "quality.healthy": ("Nothing odd.", "没有异常。"),
    "quality.health_never_fired": ("drop nobody here:", "在此未丢弃任何文档："),
    "quality.health_fired_often": ("drop very many (share of the documents):", "丢弃过多（占文档比例）："),
    "quality.health_out_of_range": (
        "see values the signal cannot have (share, furthest value):", "信号出现不可能的取值（占比，最远值）：",
    ),
    "quality.health_not_measured": ("have no value to look at (share):", "没有可判断的取值（占比）："),
    "quality.health_limit_out_of_range": ("have a limit the signal can never reach:", "阈值超出信号的可能范围："),
    "quality.health_other_language": (
        "meet languages they were not made for (share):", "遇到其设计之外的语言（占比）：",
    ),
    "quality.health_off": ("are without what the original has:", "缺少原版中的规则："),
    "quality.languages": ("language", "语言"),
    "quality.languages_title": ("By language", "按语言"),
    "quality.sources": ("source", "来源"),
    "quality.sources_title": ("By source", "按来源"),
    "quality.group_documents": ("documents", "文档"),
    "quality.group_kept": ("kept", "保留"),
    "quality.group_before": ("kept by the preset", "预设保留"),
    "quality.group_lost": ("characters lost", "失去的字符"),
    "quality.group_lost_before": ("lost by the preset", "预设失去"),
    "quality.others": ("all others", "其余"),
    "quality.model_title": ("How well does it tell {label} from {other}?", "它能多好地区分 {label} 与 {other}？"),
    "quality.model_held_out": ("On rows it never saw", "在未见过的数据上"),
    "quality.model_score": ("accuracy {accuracy}, area under the curve {area}", "准确率 {accuracy}，曲线下面积 {area}"),
    "quality.model_label": ("label", "标签"),
    "quality.model_trained": ("trained on", "用于训练"),
    "quality.model_held": ("held out", "留出"),
    "quality.model_calibration": (
        "Do the scores mean what they say? Of rows with such a score, so many are {label}.",
        "分数可信吗？得分在此区间的数据中，{label} 所占的比例。",
    ),
    "quality.model_bin": ("score", "分数区间"),
    "quality.model_rows": ("rows", "条数"),
    "quality.model_said": ("mean score", "平均分"),
    "quality.model_true": ("truly so", "实际占比"),
    "quality.model_words": ("What it goes by", "判断依据"),
    "quality.model_speaks": ("speaks for {label}", "支持 {label}"),
    "quality.model_word": ("word or pair", "词或词对"),
    "quality.model_weight": ("weight", "权重"),
    "quality.model_times": ("times", "次数"),
    "quality.model_documents": (
        "Why documents score as they do, the most {label} first", "各文档得分的原因，最像 {label} 的在前",
    ),
    "quality.model_document": ("document", "文档"),
    "quality.model_why": ("what moved the score most", "影响最大的词"),
    "quality.model_document_score": ("score", "得分"),
    "quality.model_few_rows": (
        "{label} has only {value:,} rows on one side of the split; below {limit:,} the figures say little.",
        "{label} 在划分的一侧只有 {value:,} 条；少于 {limit:,} 条时数字说明不了什么。",
    ),
    "quality.model_repeated": (
        "{value:,} rows have the words of another row: they are on one side of the split, and count as fewer texts.",
        "{value:,} 条数据与另一条的词相同：它们被划在同一侧，实际文本更少。",
    ),
    "quality.model_two_labels": ("{value:,} texts stand under both labels.", "{value:,} 个文本同时带有两个标签。"),
    "quality.model_not_held_out": (
        "Too few rows to hold any out: there is no score. Bring at least {limit:,} more of each label.",
        "数据太少，无法留出：没有得分。每个标签至少再增加 {limit:,} 条。",
    ),
    "quality.choose": ("limit", "阈值"),
    "quality.move": ("move it", "移动"),
    "quality.type": ("number, or off", "数值或 off"),
    "quality.reset": ("Back to the preset", "恢复预设"),
    "quality.reset_all": ("All back", "全部恢复"),
    # a vocabulary, and texts as tokens
    "tokens.title": ("What is in this vocabulary?", "词表里有什么？"),
    "tokens.sum": (
        "{name}: {n:,} tokens, {control:,} of them control",
        "{name}：{n:,} 个 token，其中控制 {control:,} 个",
    ),
    "tokens.sum_used": (", {n:,} ({share}) used in the texts looked at", "，所看文本用到 {n:,} 个（{share}）"),
    "tokens.longest": ("The longest tokens", "最长的 token"),
    "tokens.oddest": ("The oddest tokens", "最特别的 token"),
    "tokens.token": ("token", "token"),
    "tokens.id": ("id", "id"),
    "tokens.characters": ("characters", "字符数"),
    "tokens.bytes": ("bytes", "字节数"),
    "tokens.used": ("times used", "使用次数"),
    "tokens.kind": ("kind", "种类"),
    "tokens.ids": ("tokens", "token 数"),
    "tokens.examples": ("examples, the longest first", "示例（最长的在前）"),
    "tokens.control": ("control tokens", "控制 token"),
    "tokens.halves": ("parts of a character", "不完整的字符"),
    "tokens.blanks": ("blanks only", "仅空白"),
    "tokens.digits": ("several digits", "多位数字"),
    "tokens.signs": ("four signs or more", "四个以上的符号"),
    "tokens.invisible": ("with invisible characters", "含不可见字符"),
    "tokens.unused": ("not used in the texts looked at", "所看文本未用到"),
    "tokens.unknown": ("language unknown", "语言未知"),
    "tokens.texts": ("{n:,} texts in {languages:,} languages", "{languages:,} 种语言的 {n:,} 篇文本"),
    "tokens.texts_note": (
        "Every box is a token; a box of bytes is a part of a character. Point at one to see its id and bytes.",
        "每个方框是一个 token；显示字节的方框是不完整的字符。将指针移到其上可查看 id 与字节。",
    ),
    "tokens.text": (
        "{source} · {characters:,} characters · {tokens:,} tokens · {bytes} bytes a token",
        "{source} · {characters:,} 个字符 · {tokens:,} 个 token · 每个 token {bytes} 字节",
    ),
    "tokens.more": ("… {n:,} more", "……另有 {n:,} 个"),
    # shards: how even they are, and the audit of an order
    "shards.title": ("How even are the shards?", "分片有多均匀？"),
    "shards.nothing": ("There is no file to look at.", "没有可查看的文件。"),
    "shards.tokens": ("tokens", "token"),
    "shards.rows": ("rows", "行"),
    "shards.sum": ("{n:,} files, {low:,} to {high:,} {unit} each", "{n:,} 个文件，每个 {low:,} 至 {high:,} {unit}"),
    "shards.sum_even": ("{n:,} files of {size:,} {unit}", "{n:,} 个文件，每个 {size:,} {unit}"),
    "shards.histogram": ("How many files have which size:", "各种大小的文件数："),
    "shards.before": ("Before: {n:,} files", "之前：{n:,} 个文件"),
    "shards.after": ("After: {n:,} files", "之后：{n:,} 个文件"),
    "shards.now": ("{n:,} files", "{n:,} 个文件"),
    "shards.sizes": (
        "{unit} in a file: smallest {low:,} · median {middle:,} · largest {high:,} · largest / smallest {ratio}",
        "每个文件的 {unit}：最小 {low:,} · 中位数 {middle:,} · 最大 {high:,} · 最大 / 最小 {ratio}",
    ),
    "shards.some": ("{n:,} of the {of:,} files, spread over all:", "{of:,} 个文件中均匀选取的 {n:,} 个："),
    "shards.others": ("{n:,} more sources", "另外 {n:,} 个来源"),
    "shards.bin": ("{span} {unit}: {n:,} files", "{span} {unit}：{n:,} 个文件"),
    "shards.sources": ("Sources, and their share from file to file", "各来源及其在各文件中的占比"),
    "shards.range": ("least – most of a file", "单个文件中最少 – 最多"),
    "shards.range_before": ("least – most of a file, before", "之前：单个文件中最少 – 最多"),
    "shards.range_after": ("least – most of a file, after", "之后：单个文件中最少 – 最多"),
    "shards.more_sources": ("{n:,} more sources are not listed.", "另有 {n:,} 个来源未列出。"),
    "shards.audit": ("Is this an order to train on?", "这个顺序适合训练吗？"),
    "shards.audit_passed": ("All {n:,} checks passed.", "全部 {n:,} 项检查通过。"),
    "shards.audit_failed": ("{failed:,} of {n:,} checks failed.", "{n:,} 项检查中有 {failed:,} 项未通过。"),
    "shards.audit_none": ("Nothing was checked.", "未作任何检查。"),
    "shards.audit_verdict": ("verdict", "结论"),
    "shards.audit_check": ("check", "检查"),
    "shards.audit_value": ("measured", "实测"),
    "shards.audit_ideal": ("ideal", "理想值"),
    "shards.audit_limit": ("limit", "界限"),
    "shards.passed": ("✓ passed", "✓ 通过"),
    "shards.failed": ("✗ failed", "✗ 未通过"),
    # two runs compared
    "compare.title": ("Runs {one} and {other}: what differs", "运行 {one} 与 {other}：有何不同"),
    "compare.nothing": (
        "There is no other run to compare with: run something twice, or name one in `other`.",
        "没有可比较的另一次运行：请再运行一次，或在 `other` 中指定。",
    ),
    "compare.nothing_counted": (
        "Nothing that was counted differs; the files are not all the same.",
        "统计数字没有差异，但文件并不全部相同。",
    ),
    "compare.identical": (
        "Identical: {n:,} files, every byte that both wrote is the same.",
        "完全相同：{n:,} 个文件，两次运行写出的每个字节都相同。",
    ),
    "compare.differ": ("They differ: {what}.", "两者不同：{what}。"),
    "compare.n_asked": ("parameters: {n:,}", "参数 {n:,} 项"),
    "compare.n_inputs": ("files read: {n:,}", "读取的文件 {n:,} 个"),
    "compare.n_versions": ("library versions: {n:,}", "库版本 {n:,} 项"),
    "compare.n_stages": ("stages of the funnel: {n:,}", "漏斗阶段 {n:,} 个"),
    "compare.n_documents": ("documents they disagree on: {n:,}", "处理结果不同的文档 {n:,} 篇"),
    "compare.n_files": ("files written: {n:,}", "写出的文件 {n:,} 个"),
    "compare.only": ("Only {name}: {what}", "仅 {name}：{what}"),
    "compare.same": ("the same in both", "两者相同"),
    "compare.difference": ("difference", "差异"),
    "compare.more": ("{n:,} more rows are left out", "另有 {n:,} 行未列出"),
    "compare.asked": ("What was asked differently", "参数的不同之处"),
    "compare.asked_name": ("parameter", "参数"),
    "compare.inputs": ("What was read", "读取的文件"),
    "compare.inputs_name": ("file (sha256)", "文件（sha256）"),
    "compare.versions": ("Versions", "版本"),
    "compare.versions_name": ("library", "库"),
    "compare.documents": ("Documents on which they disagree: {place}", "处理结果不同的文档：{place}"),
    "compare.documents_n": ("They disagree on {n:,} documents.", "两者对 {n:,} 篇文档的处理不同。"),
    "compare.lost_in_other": ("Kept in {one} and lost in {other}: {n:,}.", "{one} 保留而 {other} 未保留：{n:,}。"),
    "compare.lost_in_one": ("Lost in {one} and kept in {other}: {n:,}.", "{one} 未保留而 {other} 保留：{n:,}。"),
    "compare.lost_otherwise": (
        "Lost in both, elsewhere or for another reason: {n:,}.",
        "两者均未保留但阶段或原因不同：{n:,}。",
    ),
    "compare.absent_n": ("Read by one of them only: {n:,}.", "仅其中一次读取：{n:,}。"),
    "compare.absent": ("never read", "未读取"),
    "compare.no_match": (
        "the two read different inputs here, and a line of one is not the same document as that line of the other",
        "两者在此读取的输入不同，同一行号并非同一篇文档",
    ),
    "compare.examples": ("Some of them ({n:,}), drawn by a seed", "示例（{n:,} 篇，按种子抽取）"),
    "compare.measured": ("{value} against {limit}", "测得 {value}，界限 {limit}"),
    "compare.twin": ("for {twin}", "与 {twin} 重复"),
    "compare.funnel": ("What was kept, stage by stage", "逐阶段的保留情况"),
    "compare.reasons": ("Reasons whose counts differ ({n:,})", "数量不同的原因（{n:,}）"),
    "compare.shares": ("{name}: how much of each source there is at the end", "{name}：最终各来源的数量"),
    "compare.shards": ("{name}: the shards", "{name}：分片"),
    "compare.settings": ("What the manifests say differently ({n:,})", "两份清单的不同之处（{n:,}）"),
    "compare.trained_share": ("share of tokens trained", "参与训练的 token 占比"),
    "compare.packs": ("packs", "包数"),
    "compare.cut_documents": ("documents cut", "被切开的文档"),
    "compare.lengths": ("Tokens of a document", "每篇文档的 token 数"),
    "compare.length": ("tokens", "token 数"),
    "compare.mean": ("mean", "平均"),
    "compare.shortest": ("shortest", "最短"),
    "compare.longest": ("longest", "最长"),
    "compare.quantile": ("{share} are shorter", "{share} 的文档更短"),
    "compare.bins": ("Share of the documents by length", "各长度文档的占比"),
    "compare.too_many_tokens": (
        "Too many tokens to compare one by one here: 23_inspect does it when asked for.",
        "token 太多，此处未逐个比较：可在 23_inspect 中进行。",
    ),
    "compare.other_tokenizer": (
        "Not compared token by token: the ids are of two tokenizers, or of two processors.",
        "未逐个 token 比较：两者的 tokenizer 或处理器不同。",
    ),
    "compare.unreadable": (
        "Not compared token by token: a shard cannot be read.",
        "未逐个 token 比较：有分片无法读取。",
    ),
    "compare.files": ("Files written", "写出的文件"),
    "compare.files_list": ("Those that are not the same ({n:,})", "不相同的文件（{n:,}）"),
    "compare.files_same": ("{n:,} the same", "{n:,} 个相同"),
    "compare.files_differs": ("{n:,} with other bytes", "{n:,} 个内容不同"),
    "compare.files_only_one": ("{n:,} only in {one}", "{n:,} 个仅在 {one}"),
    "compare.files_only_other": ("{n:,} only in {other}", "{n:,} 个仅在 {other}"),
    "compare.differs": ("other bytes", "内容不同"),
    "compare.only_one": ("only the first", "仅前者"),
    "compare.only_other": ("only the other", "仅后者"),
    # the combinations of a matrix beside each other
    "matrix.differs": ("What differs", "不同之处"),
    "matrix.efficiency": ("packing efficiency", "打包效率"),
    "matrix.kept": ("records kept", "保留的记录"),
    "matrix.measure": ("measured", "指标"),
    "matrix.records": ("records in", "输入的记录"),
    "matrix.report": ("report", "报告"),
    "matrix.same": ("The same in all", "完全相同"),
    "matrix.shared": (
        "What does not differ was done once and shared; its time counts for the run that did it.",
        "没有差别的步骤只执行一次并共享；其时间计入执行它的那次运行。",
    ),
    "matrix.time": ("time", "时间"),
    "matrix.title": ("{n:,} combinations side by side", "{n:,} 种组合对比"),
    "matrix.tokens": ("tokens written", "写入的 token"),
    "matrix.value": ("value", "取值"),
    # one page of PDF
    "onepage.more": ("… and {n:,} more", "……另有 {n:,} 项"),
    "onepage.left": ("{n:,} more lines did not fit on this page.", "另有 {n:,} 行未能放入本页。"),
    "onepage.foot": ("Everything else stands in the page beside this one.", "其余内容见同时生成的网页。"),
    # a run as one file to send
    "share.title": ("Run {name}: shared report", "运行 {name}：分享报告"),
    "share.contents": ("sections", "目录"),
    "share.summary": ("Summary", "概要"),
    "share.funnel": ("Funnel", "漏斗"),
    "share.parameters": ("Parameters that were changed", "改动过的参数"),
    "share.no_parameters": ("None: every notebook ran with its own values.", "无：所有笔记本均使用默认参数。"),
    "share.default": ("the notebook's own", "默认值"),
    "share.files": ("Files", "文件"),
    "share.time": ("time", "时间"),
    "share.memory": ("memory", "内存"),
    "share.warnings_left": (
        "{n:,} more warnings stand in the page made with this one.",
        "另有 {n:,} 条警告，见同时生成的网页。",
    ),
    "share.left_out": ("Left out to keep this file small: {what}.", "为控制文件大小而省略：{what}。"),
    "share.rule_none": (
        "This file holds numbers alone: no text of a document, a conversation, a template or a token.",
        "本文件只含数字：不含任何文档、对话、模板或 token 的文本。",
    ),
    "share.rule_masked": (
        "Texts are shown as shapes: each letter is x (X for a capital), each Chinese character 某, each digit 0; marks "
        "and blanks stay. Who has the text can recognise it by its shape; choose `none` where that matters.",
        "文本只显示形状：字母写作 x（大写写作 X），汉字写作“某”，数字写作 0；标点与空白保留。"
        "持有原文的人可由形状认出它；若不可接受，请选择 `none`。",
    ),
    "share.rule_full": (
        "This file shows texts of the data as the pages of the run do: treat it like the data.",
        "本文件与运行页面一样显示数据原文：请像对待数据一样对待它。",
    ),
    "share.rule_aliases": (
        "Names of files, sources, runs and documents are replaced: the same name by the same alias. Digests are cut "
        "short; who has the same file can tell that it is the same.",
        "文件、来源、运行和文档的名称均以别名代替，同名同别名。摘要只显示开头；持有同一文件的人可以认出它。",
    ),
    "share.rule_named": (
        "Names of files, sources, runs and documents are shown.", "文件、来源、运行和文档的名称照原样显示。",
    ),
    "share.sample_lost": ("Shapes of what was turned down", "未保留文档的形状"),
    "share.sample_kept": ("Shapes of what came through", "保留文档的形状"),
    "share.sample_rows": ("Shapes of rows: what is trained stands on blue", "数据行的形状：蓝底为参与训练的部分"),
    "share.row": ("{name}: the beginning of the first row", "{name}：第一行的开头"),
    # reports
    "report.bytes": ("bytes", "字节"),
    "report.changed": ("changed", "改动"),
    "report.code": ("code", "代码"),
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
    "report.shared": (
        "Made in run {name} and shared with this one, where nothing differs: the names and folders below are those of "
        "{name}.",
        "由运行 {name} 生成并与本次运行共享（毫无差别）：下面的名称和文件夹属于 {name}。",
    ),
    "report.stage": ("stage", "阶段"),
    "report.state": ("state", "状态"),
    "report.state_done": ("done", "完成"),
    "report.state_failed": ("failed", "失败"),
    "report.state_interrupted": ("interrupted", "中断"),
    "report.state_open": ("not run yet", "尚未运行"),
    "report.state_outdated": ("outdated", "已过时"),
    "report.state_running": ("running", "运行中"),
    "report.tokens": ("tokens written", "写入的 token"),
    "report.value": ("value", "取值"),
    "report.versions": ("Made with", "使用版本"),
    "report.why": ("why", "原因"),
    # the verdict on a run, and what to know before it is used
    "verdict.done": ("Finished", "已完成"),
    "verdict.failed": ("Stopped by an error", "因错误停止"),
    "verdict.interrupted": ("Stopped before its end", "中途停止"),
    "verdict.running": ("Not finished: a notebook has begun and not ended", "尚未完成：有笔记本已开始但未结束"),
    "verdict.outdated": (
        "Not finished: some notebooks stand on what has changed since",
        "尚未完成：有笔记本所依据的内容此后已改变",
    ),
    "verdict.open": ("Not finished: some notebooks have not run yet", "尚未完成：有笔记本尚未运行"),
    "verdict.empty": ("Nothing has been run yet", "尚未运行任何笔记本"),
    "verdict.nothing": ("Nothing was counted", "没有任何计数"),
    "verdict.kept": (
        "{records:,} documents came in, {kept:,} were kept ({share})",
        "输入 {records:,} 篇文档，保留 {kept:,} 篇（{share}）",
    ),
    "verdict.tokens": (
        "{records:,} documents came in, {kept:,} of them became {tokens:,} tokens",
        "输入 {records:,} 篇文档，其中 {kept:,} 篇成为 {tokens:,} 个 token",
    ),
    "verdict.rows": ("in {rows:,} rows", "，共 {rows:,} 行"),
    "verdict.npz": ("{rows:,} rows lie in {shards:,} even shards", "{rows:,} 行分布在 {shards:,} 个均匀的分片中"),
    "alert.more": ("And {n:,} more of the same kind.", "同类问题另有 {n:,} 项。"),
    "alert.failed": (
        "{notebook} failed: {text} · What the notebooks before it wrote stands, and finished tasks are kept. "
        "Once the cause is put right, go on with: {again}",
        "{notebook} 失败：{text} · 此前各笔记本写出的内容有效，已完成的任务会保留。排除原因后继续：{again}",
    ),
    "alert.interrupted": (
        "{notebook} was stopped before its end. Finished tasks are kept; what is below is half of a run. Go on "
        "with: {again}",
        "{notebook} 在结束前停止。已完成的任务会保留；下面只是运行的一部分。继续：{again}",
    ),
    "alert.running": (
        "{notebook} has begun and not ended: what is below is what stood when this page was made.",
        "{notebook} 已开始但尚未结束：下面是生成本页时的情况。",
    ),
    "alert.open": (
        "{n:,} of {all:,} notebooks have not run yet: {names}. The numbers below end before them. Go on with: "
        "{again}",
        "{all:,} 个笔记本中有 {n:,} 个尚未运行：{names}。下面的数字只到它们之前为止。继续：{again}",
    ),
    "alert.unbalanced": (
        "The ledger of {notebook} does not balance: {text}. Records are missing without a reason: do not use "
        "what it wrote, and report this.",
        "{notebook} 的账目不平衡：{text}。有记录无故缺失：不要使用它写出的内容，并请报告此问题。",
    ),
    "alert.gone": (
        "{n:,} files that {notebook} wrote are no longer as it wrote them, {file} among them. What is below "
        "describes files that are not there; make them again with: {again}",
        "{notebook} 写出的文件中有 {n:,} 个已与写出时不同，例如 {file}。下面描述的文件已不在；重新生成：{again}",
    ),
    "alert.older": (
        "{notebook} stands on an older state of {names}: what it wrote is not what this run would write now. Make "
        "it anew with: {again}",
        "{notebook} 依据的是 {names} 的旧状态：它写出的内容与本次运行现在会写出的不同。重新生成：{again}",
    ),
    "alert.values": (
        "{notebook} was made with other parameters than the recipe of this run has now: {what}. Make it anew with: "
        "{again}",
        "{notebook} 生成时的参数与本次运行的配方现在的取值不同：{what}。重新生成：{again}",
    ),
    "alert.break": (
        "{after} has {into:,} documents in, but {before} kept {kept:,}: it was made from something else. Run "
        "both again before you trust what follows.",
        "{after} 输入了 {into:,} 篇文档，而 {before} 保留了 {kept:,} 篇：它所用的不是同一份数据。请先重新运行这两"
        "个笔记本。",
    ),
    "alert.lost_all": (
        "None of the {n:,} documents came through {notebook}: there is nothing to train on. The reasons below "
        "say which limit did it.",
        "{n:,} 篇文档没有一篇通过 {notebook}：没有可训练的内容。下面的原因会说明是哪个限值造成的。",
    ),
    "alert.tokenizers": (
        "{one} and {other} were written with different tokenizers: their ids do not mean the same. Use one "
        "tokenizer and run the later one again.",
        "{one} 与 {other} 使用了不同的分词器：其 id 含义不同。请统一分词器并重新运行后者。",
    ),
    "alert.damage": (
        "{notebook}: {n:,} inputs are damaged ({reason}); how many records behind the damage are missing, nobody "
        "knows. Repair the files and run again.",
        "{notebook}：{n:,} 个输入已损坏（{reason}）；损坏处之后缺失多少记录无从得知。请修复文件后重新运行。",
    ),
    "alert.reveal": (
        "{notebook} shows personal data as it stands (reveal): its page must not be passed on. Run it again "
        "without reveal before sharing.",
        "{notebook} 原样显示了个人信息（reveal）：其页面不得外传。分享前请关闭 reveal 重新运行。",
    ),
    "alert.benchmarks": (
        "No benchmark was given to {notebook}: nobody knows whether test questions are in this data, and scores "
        "on them may mean nothing. Name the benchmarks you will report.",
        "没有为 {notebook} 指定基准测试：无法得知数据中是否含有测试题，其得分可能毫无意义。请指定将要报告的基准。",
    ),
    "alert.pii": (
        "{notebook} looked for no personal data (pii_kinds is none): addresses, phone numbers and keys stay as "
        "they are in the texts.",
        "{notebook} 没有查找个人信息（pii_kinds 为 none）：文本中的地址、电话和密钥保持原样。",
    ),
    "alert.records": (
        "Records that failed in {notebook}: {n:,} ({reasons}). They are not in the data; its rejected.jsonl.zst names "
        "each.",
        "{notebook} 中有 {n:,} 条记录失败：{reasons}。它们不在数据中；rejected.jsonl.zst 列出了每一条。",
    ),
    "alert.source": (
        "Source {source} lost {share} of its {n:,} documents to {stage} in {notebook}, most of them to {reason}. "
        "Look at some of them before you believe that; a limit made for other texts does the same.",
        "来源 {source} 的 {n:,} 篇文档中有 {share} 在 {notebook} 的 {stage} 被去除，主要原因是 {reason}。请先查看"
        "几篇再下结论；为其他文本设定的限值也会造成这种情况。",
    ),
    "alert.cut": (
        "{share} of the tokens of {notebook} ({n:,}) are not in the rows: what was longer than a row was cut off "
        "or dropped whole. Longer rows, or too_long=cut_turns, keep more.",
        "{notebook} 的 token 中有 {share}（{n:,} 个）不在行中：超过行长的部分被截断或整条丢弃。更长的行或 "
        "too_long=cut_turns 可保留更多。",
    ),
    "alert.untrained": (
        "Only {share} of the tokens of {notebook} are trained: almost everything is context. Look at the mask in "
        "the workbench before you train.",
        "{notebook} 的 token 中只有 {share} 参与训练：几乎全是上下文。训练前请在工作台中查看掩码。",
    ),
    "alert.waste": (
        "{share} of the places in the rows of {notebook} are padding: a trainer computes on them for nothing. "
        "Another packing, or a smaller row, wastes less.",
        "{notebook} 的行中有 {share} 的位置是填充：训练时白白计算。换一种打包方式或缩短行长可减少浪费。",
    ),
    "alert.force": (
        "{notebook} used rule sets on languages they were not made for (force): what they drop there means "
        "little.",
        "{notebook} 把规则集用在了并非其适用的语言上（force）：它们在那里的去除结果意义不大。",
    ),
    "alert.old": (
        "Not all of this run was written by the same code ({what}): some of it was kept from before a change. "
        "Run it once without keep_old before you publish it.",
        "本次运行并非全部由同一份代码写出（{what}）：部分内容保留自代码改动之前。发布前请不带 keep_old 重新运行一"
        "次。",
    ),
    "alert.sample": (
        "{notebook} read only a sample of {n:,}: the numbers are those of the sample. Set sample to 0 for "
        "everything.",
        "{notebook} 只读取了 {n:,} 条样本：数字仅为样本的。要处理全部数据，请将 sample 设为 0。",
    ),
    "alert.memory": (
        "{notebook} held {memory} of the {limit} this machine gives: a little more data per task and it is "
        "killed. Use fewer workers or a smaller memory_budget.",
        "{notebook} 占用了 {memory}，而本机上限为 {limit}：数据再多一点就会被终止。请减少 workers 或调小 "
        "memory_budget。",
    ),
    "alert.died": (
        "Workers died in {notebook} ({n:,} times); their tasks ran again and nothing is missing. Most often "
        "memory is short: use fewer workers.",
        "{notebook} 中有工作进程终止（{n:,} 次）；其任务已重跑，没有缺失。多半是内存不足：请减少 workers。",
    ),
    "alert.reference": (
        "The accelerator fastokens did not serve in {notebook}: the reference did, with the same ids, but many "
        "times slower.",
        "{notebook} 未使用加速器 fastokens：由参考分词器完成，id 相同，但慢许多倍。",
    ),
    "alert.built_in": (
        "This run is on text from this machine, which shows how things work. For your data, name your files in "
        "the recipe.",
        "本次运行使用的是本机自带文本，仅用于演示。要处理您的数据，请在配方中指定文件。",
    ),
    # the page of a run
    "index.calm": (
        "Nothing stands out: no record failed, no source lost much, nothing is cut short or missing.",
        "未见异常：没有记录失败，没有来源大量流失，也没有截断或缺失。",
    ),
    "index.way": ("From {first} to {last}: what was kept", "从 {first} 到 {last}：保留情况"),
    "index.break": (
        "The chain breaks here: {before} kept {kept:,}, {after} has {into:,} in",
        "链条在此中断：{before} 保留 {kept:,}，{after} 输入 {into:,}",
    ),
    "index.as_table": ("the same as a table", "以表格显示"),
    "index.why": ("all reasons, by source", "全部原因（按来源）"),
    "index.rows": ("rows", "行"),
    "index.shards": ("shards", "分片"),
    "index.seconds": ("time", "时间"),
    "index.memory": ("most memory", "最大内存"),
    "index.says": ("what {name} shows", "{name} 显示的结果"),
    "index.changed": ("Parameters that were changed", "改动过的参数"),
    "index.unchanged": ("Every parameter is the notebook's own.", "所有参数均为笔记本的默认值。"),
    "index.default": ("default", "默认值"),
    "index.made": ("Made with", "生成环境"),
    "index.what": ("what", "项目"),
    "index.all": ("all", "全部"),
    "index.tokenizer": ("tokenizer {name}, sha256", "分词器 {name}，sha256"),
    "index.digest": ("digest of all rows", "全部行的摘要"),
    "index.times": ("Time and memory", "时间与内存"),
    "index.total": (
        "{time} for the {n:,} notebooks that came to their end, one after the other.",
        "{n:,} 个已完成的笔记本依次运行共用 {time}。",
    ),
    "index.passed": ("passed on everything as it was: {names}", "原样全部通过：{names}"),
    "index.start": ("seconds until the first cell", "到首个单元格的秒数"),
    "index.stages": ("by stage ({n:,})", "按阶段（{n:,}）"),
    "index.tasks": ("tasks", "任务"),
    "index.wall": ("seconds", "秒"),
    "index.work": ("seconds of all workers", "各工作进程合计秒数"),
    # numbers as files
    "sheets.link": ("these numbers as CSV", "以 CSV 下载数字"),
    "sheets.bar": ("figure", "图"),
    "sheets.part": ("part", "部分"),
    "sheets.value": ("value", "值"),
    # the template workbench
    "workbench.title": ("Which tokens does this template train, and why?", "这个模板训练哪些 token，为什么？"),
    "workbench.sub": (
        "{way} · row {at:,} of {n:,} · form {form} · policy: {policy} · tokenizer {tokenizer}",
        "{way} · 第 {at:,} / {n:,} 行 · 格式 {form} · 训练范围：{policy} · 分词器 {tokenizer}",
    ),
    "workbench.edited": ("{name} (edited)", "{name}（已修改）"),
    "workbench.template": ("template", "模板"),
    "workbench.policy_all": ("every answer", "所有回答"),
    "workbench.policy_last": ("answers behind the last question", "最后一个问题之后的回答"),
    "workbench.policy_reasoning": ("without reasoning", "不含推理"),
    "workbench.policy_tool_calls": ("without tool calls", "不含工具调用"),
    "workbench.policy_train_after_stop": ("with what stands behind the stop", "含停止 token 之后的内容"),
    "workbench.label": ("somebody labelled this row {label}", "此行被标注为 {label}"),
    "workbench.stale": (
        "This template does not work: {problem} The tokens below are those of the last text that did.",
        "此模板无法使用：{problem} 下方为上一个可用文本的 token。",
    ),
    "workbench.drop": ("This row is dropped ({reason}). {why}", "此行会被丢弃（{reason}）。{why}"),
    "workbench.drop_message_not_rendered": (
        "The template leaves out an answer that was to be trained.",
        "模板漏掉了本应参与训练的回答。",
    ),
    "workbench.drop_prompt_not_rendered": (
        "The template cannot render the conversation up to an answer, as a server has to.",
        "模板无法像推理时那样渲染到某个回答为止的对话。",
    ),
    "workbench.drop_prompt_differs": (
        "At inference the template opens the answer otherwise than in training.",
        "推理时模板写出的回答开头与训练时不同。",
    ),
    "workbench.drop_border_inside_token": (
        "A target would begin or end inside a token.",
        "训练目标会从某个 token 的中间开始或结束。",
    ),
    "workbench.drop_turns_overlap": (
        "Another message speaks inside an answer.",
        "另一条消息出现在某个回答之中。",
    ),
    "workbench.drop_stop_inside_answer": (
        "A stop token stands inside an answer, before its end.",
        "停止 token 出现在回答之中，先于其结尾。",
    ),
    "workbench.drop_no_target": (
        "No token of it is a target under this policy.",
        "在此训练范围下没有任何 token 是训练目标。",
    ),
    "workbench.limit_drop": (
        "Under the limit of {limit:,} tokens this row is dropped ({reason}).",
        "在 {limit:,} 个 token 的上限下，此行会被丢弃（{reason}）。",
    ),
    "workbench.cut": (
        "This row is cut at {limit:,} tokens: {lost:,} go, {targets:,} of them targets.",
        "此行在 {limit:,} 个 token 处被截断：去掉 {lost:,} 个，其中 {targets:,} 个是训练目标。",
    ),
    "workbench.literal": (
        "Control tokens spelled inside the data: {n:,}. They are encoded as text and have no power.",
        "数据中有 {n:,} 处出现控制 token 的字面写法。它们按普通文本编码，不起控制作用。",
    ),
    "workbench.slow": (
        "This change took {seconds} s: the template or the text is heavy.",
        "此次更改用了 {seconds} 秒：模板或文本过重。",
    ),
    "workbench.counts": (
        "{n:,} tokens · {trained:,} trained ({share}) · {characters:,} characters",
        "{n:,} 个 token · {trained:,} 个参与训练（{share}）· {characters:,} 个字符",
    ),
    "workbench.legend_cut": ("cut off (hatched)", "被截掉（斜线）"),
    "workbench.as_target": (
        "Each chip: above what is read at that place, below what is to be written next; bold where the loss counts.",
        "每个方块：上方是该位置读入的 token，下方是接着要写出的 token。计入损失处为粗体。",
    ),
    "workbench.every": (
        "Position, id, bytes, characters and origin of every token",
        "每个 token 的位置、id、字节、字符区间与来源",
    ),
    "workbench.hint": (
        "Point at a token, or reach it with the Tab key: position · id · bytes · characters · field of origin",
        "将指针移到 token 上，或用 Tab 键移到它：位置 · id · 字节 · 字符区间 · 来源字段",
    ),
    "workbench.skip": ("Skip the tokens", "跳过 token"),
    "workbench.runs_label": (
        "The tokens in order, in runs that share one reason",
        "按顺序排列的 token，按相同原因分段",
    ),
    "workbench.detail": (
        "{at} · id {id} · bytes {bytes} · characters {span} · {origin}",
        "{at} · id {id} · 字节 {bytes} · 字符 {span} · {origin}",
    ),
    "workbench.detail_next": (
        "{at} reads id {was}, writes id {id} · bytes {bytes} · characters {span} · {origin}",
        "{at} 读入 id {was}，写出 id {id} · 字节 {bytes} · 字符 {span} · {origin}",
    ),
    "workbench.turn": ("turn {turn} ({role})", "第 {turn} 轮（{role}）"),
    "workbench.no_turn": ("outside all turns", "所有轮次之外"),
    "workbench.the_end": ("the end", "结尾"),
    "workbench.part_start": ("opening", "开头"),
    "workbench.part_role": ("role", "角色"),
    "workbench.part_content": ("content", "内容"),
    "workbench.part_reasoning": ("reasoning", "推理"),
    "workbench.part_tool_calls": ("tool calls", "工具调用"),
    "workbench.part_frame": ("the template's text", "模板的文字"),
    "workbench.part_stop": ("stop", "停止"),
    "workbench.part_after": ("behind the stop", "停止之后"),
    "workbench.part_tools": ("tools", "工具"),
    "workbench.part_outside": ("the template's text", "模板的文字"),
    "workbench.why_answer": (
        "The model must learn to write this.",
        "模型必须学会写出这些。",
    ),
    "workbench.why_stop": (
        "The model must learn to write the token it stops at, or its answers never end.",
        "模型必须学会写出停止 token，否则回答永远不会结束。",
    ),
    "workbench.why_after_stop_asked": (
        "It stands behind the stop token and is trained because train_after_stop is on.",
        "它位于停止 token 之后，因 train_after_stop 已开启而参与训练。",
    ),
    "workbench.why_prompt": (
        "The turn of the {role}, with the format around it: only answers of the assistant are trained.",
        "{role} 的轮次及其格式：只有 assistant 的回答参与训练。",
    ),
    "workbench.why_generation_prompt": (
        "The generation prompt: at inference it is given, and the answer begins behind it.",
        "生成提示：推理时它是给定的，回答从它之后开始。",
    ),
    "workbench.why_after_stop": (
        "Generation has already stopped in front of it.",
        "生成在它之前已经停止。",
    ),
    "workbench.why_no_stop": (
        "Behind an answer without a stop token: nobody can say that the model has to write it.",
        "位于没有停止 token 的回答之后：无法断定模型必须写出它。",
    ),
    "workbench.why_not_wanted": (
        "An answer that is only read: the policy, its train flag, its weight or its place in a preference says so.",
        "只读不训的回答：由训练范围、train 标记、权重或其在偏好对中的位置决定。",
    ),
    "workbench.why_reasoning_off": (
        "What the model thinks before the answer: the policy leaves it out.",
        "模型在回答之前的思考：训练范围不包括它。",
    ),
    "workbench.why_tool_calls_off": (
        "Calls of tools and the stop behind them: the policy leaves them out.",
        "工具调用及其后的停止 token：训练范围不包括它们。",
    ),
    "workbench.why_outside": (
        "The template writes this outside all turns: the model only reads it.",
        "模板在所有轮次之外写入：模型只读它。",
    ),
    "workbench.why_document": (
        "The text of the document: the model learns to write all of it.",
        "文档正文：模型学习写出全部内容。",
    ),
    "workbench.why_eos": (
        "One EOS ends every document, so the model learns where texts end.",
        "每篇文档以一个 EOS 结束，使模型学会文本在何处结束。",
    ),
    "workbench.why_unproven": (
        "It was to be trained, but its mask cannot be proven, so the row is dropped.",
        "本应参与训练，但其掩码无法证明，因此此行会被丢弃。",
    ),
    "workbench.why_cut": (
        "It lies behind the limit of {limit:,} tokens and goes.",
        "它超出 {limit:,} 个 token 的上限，会被去掉。",
    ),
    "workbench.why_limit": (
        "The whole row is dropped under the limit of {limit:,} tokens.",
        "在 {limit:,} 个 token 的上限下，整行会被丢弃。",
    ),
    "workbench.why_nothing": ("Behind it nothing is left to write.", "它之后没有要写出的内容。"),
    "workbench.proven": (
        "Proven for {n:,} answers: the prompt a server renders is, id by id, how the row begins.",
        "已对 {n:,} 个回答证明：推理时渲染的提示与此行开头逐 id 相同。",
    ),
    "workbench.assembled": (
        "Assembled from ids, answer by answer: the strategy itself says where each one begins and ends.",
        "由 id 逐个回答拼接而成：策略自身给出每个回答的起止。",
    ),
    "workbench.no_parity": (
        "Turn {turns}: at inference the prompt is written otherwise than this row begins. The border is still certain.",
        "第 {turns} 轮：推理时的提示与此行的开头写法不同。边界仍然确定。",
    ),
    "workbench.not_met": (
        "Turn {turns}: the generation prompt opens something that this row never shows.",
        "第 {turns} 轮：生成提示开启了此行中从未出现的内容。",
    ),
    "workbench.not_stopped": (
        "Turn {turns}: no stop token follows, so nothing teaches the model to end.",
        "第 {turns} 轮：其后没有停止 token，模型学不到在何处结束。",
    ),
    "workbench.yes": ("✓ yes", "✓ 是"),
    "workbench.no": ("✗ no", "✗ 否"),
    "workbench.proof": ("What was proven, answer by answer", "逐个回答的证明"),
    "workbench.proof_turn": ("turn", "轮次"),
    "workbench.proof_targets": ("targets", "训练目标"),
    "workbench.proof_parity": ("prompt as at inference", "提示与推理时相同"),
    "workbench.proof_met": ("generation prompt whole", "生成提示完整"),
    "workbench.proof_stopped": ("stop token trained", "停止 token 参与训练"),
    "workbench.window": (
        "Tokens {start:,} to {stop:,} of {all:,} are drawn.",
        "绘制 {all:,} 个 token 中的第 {start:,} 至 {stop:,} 个。",
    ),
    "workbench.more_characters": ("… {n:,} more characters", "……另有 {n:,} 个字符"),
    "workbench.more_turns": ("… {n:,} more turns", "……另有 {n:,} 轮"),
    "workbench.working": ("Being worked out …", "正在计算……"),
    "workbench.previous": ("Of the choices before; being worked out again …", "对应先前的选择；正在重新计算……"),
    "workbench.could_not": ("This could not be worked out: {problem}", "无法计算：{problem}"),
    "workbench.findings": ("Findings in the template", "模板中的问题"),
    "workbench.no_findings": ("Nothing was found wrong with this template.", "未发现此模板有问题。"),
    "workbench.use_repair": ("Use the repair: {what}", "采用修复：{what}"),
    "workbench.differs": (
        "These settings differ from the parameters cell. To keep them, put this into it, or press Save.",
        "当前设置与参数单元格不同。若要保留，请写入参数单元格，或按“保存”。",
    ),
    "workbench.weights": ("train by weight", "按权重训练"),
    "workbench.rows_stopped": (
        "Looking further was given up: for {n:,} rows the template passed a limit.",
        "已停止继续检查：模板在 {n:,} 行上超出限制。",
    ),
    "workbench.rows": ("All rows, the worst first", "所有行，最严重的在前"),
    "workbench.rows_done": (
        "{done:,} of {n:,} rows looked at · {clean:,} with nothing to report · {share} of the tokens trained",
        "已检查 {done:,} / {n:,} 行 · {clean:,} 行无异常 · {share} 的 token 参与训练",
    ),
    "workbench.rows_none": ("No row was looked at yet.", "尚未检查任何行。"),
    "workbench.finding": ("finding", "问题"),
    "workbench.n_rows": ("rows", "行数"),
    "workbench.first_rows": ("first in {rows}", "最先出现于 {rows}"),
    "workbench.clean": ("nothing to report", "无异常"),
    "workbench.compare": ("Compared, differences only", "对比（仅显示差异）"),
    "workbench.compare_places": ("places that differ: {n:,}", "不同之处：{n:,}"),
    "workbench.side": ("side", "一侧"),
    "workbench.left": ("left: {name}", "左：{name}"),
    "workbench.right": ("right: {name}", "右：{name}"),
    "workbench.compare_same": (
        "Both give the same {n:,} tokens and the same targets.",
        "两者给出相同的 {n:,} 个 token 和相同的训练目标。",
    ),
    "workbench.compare_more": ("{n:,} further places are not drawn.", "另有 {n:,} 处未绘制。"),
    "workbench.compare_cannot": ("{name} makes nothing of this row: {problem}", "{name} 无法处理此行：{problem}"),
    "workbench.where": ("where", "位置"),
    "workbench.nothing_here": ("nothing here", "此处没有"),
    "workbench.more_tokens": ("… {n:,} more", "……另有 {n:,} 个"),
    "workbench.pair": ("Preference: one prompt, two answers", "偏好：一个提示，两个回答"),
    "workbench.sequence": ("sequence", "序列"),
    "workbench.n_tokens": ("tokens", "token 数"),
    "workbench.n_prompt": ("shared at the start", "开头相同"),
    "workbench.n_own": ("of its own", "各自的"),
    "workbench.first_difference": (
        "The first difference is at position {at:,}: {chosen} against {rejected}.",
        "第一处差异在位置 {at:,}：{chosen} 与 {rejected}。",
    ),
    "workbench.no_difference": (
        "Both are the same tokens: there is nothing to prefer.",
        "两者的 token 完全相同：没有可偏好的内容。",
    ),
    "workbench.methods": ("Ways to find the targets, side by side", "并列比较各种确定训练目标的方法"),
    "workbench.method": ("method", "方法"),
    "workbench.method_differs": ("differs from the rule at", "与规则不同之处"),
    "workbench.method_same": ("the same targets", "训练目标相同"),
    "workbench.truncation": ("What a limit of {limit:,} tokens would lose", "以 {limit:,} 个 token 为上限会损失什么"),
    "workbench.truncation_over": (
        "Tried on {rows:,} rows, nothing is changed; the largest of them may have been left out.",
        "在 {rows:,} 行上试算，不改动任何数据；最大的行可能未计入。",
    ),
    "workbench.rows_dropped": ("rows dropped", "丢弃的行"),
    "workbench.answers_cut": ("answers cut, their stop lost", "被截断、失去停止 token 的回答"),
    "workbench.answers_lost": ("answers lost whole", "整个丢失的回答"),
    "workbench.tokens_lost": ("tokens lost", "丢失的 token"),
    "workbench.targets_lost": ("targets lost", "丢失的训练目标"),
    "workbench.choose": ("template or strategy", "模板或策略"),
    "workbench.text": ("template text", "模板文本"),
    "workbench.answers": ("answers", "回答"),
    "workbench.train_reasoning": ("train reasoning", "训练推理"),
    "workbench.train_tool_calls": ("train tool calls", "训练工具调用"),
    "workbench.train_after_stop": ("train after stop", "训练停止之后"),
    "workbench.row": ("row", "行"),
    "workbench.back": ("Previous row", "上一行"),
    "workbench.next": ("Next row", "下一行"),
    "workbench.search": ("search rows for", "在各行中搜索"),
    "workbench.search_back": ("Search back", "向前搜索"),
    "workbench.search_next": ("Search on", "向后搜索"),
    "workbench.walk": ("walk through", "逐个查看"),
    "workbench.walk_any": ("any finding ({n:,} rows)", "任何问题（{n:,} 行）"),
    "workbench.walk_rule": ("{rule} ({n:,} rows)", "{rule}（{n:,} 行）"),
    "workbench.walk_back": ("Previous finding", "上一个问题"),
    "workbench.walk_next": ("Next finding", "下一个问题"),
    "workbench.show": ("show tokens", "显示 token"),
    "workbench.show_input": ("as input", "作为输入"),
    "workbench.show_target": ("as target", "作为目标"),
    "workbench.with": ("compare with", "对比"),
    "workbench.with_nothing": ("nothing", "不对比"),
    "workbench.turned": ("the same with {name} switched", "相同，但切换 {name}"),
    "workbench.limit": ("limit in tokens, 0: none", "上限（token 数，0 为无）"),
    "workbench.too_long": ("too long", "过长时"),
    "workbench.from": ("from token", "从第几个 token"),
    "workbench.record_json": ("record as JSON", "JSON 形式的记录"),
    "workbench.group_template": ("Template", "模板"),
    "workbench.group_policy": ("What is trained", "训练范围"),
    "workbench.group_row": ("Row", "行"),
    "workbench.group_view": ("View", "显示"),
    "workbench.group_texts": ("Edit this row", "修改此行"),
    "workbench.reset": ("Undo all edits", "撤销全部修改"),
    "workbench.save": ("Save", "保存"),
    "workbench.saved": ("Saved: {names}.", "已保存：{names}。"),
    # texts before and after
    "text_diff.title": ("Before and after", "处理前后"),
    "text_diff.sum": ("{n:,} of {all:,} documents changed", "{all:,} 篇文档中有 {n:,} 篇被修改"),
    "text_diff.gone": (
        "{n:,} more documents have no text afterwards: they were dropped.",
        "另有 {n:,} 篇文档之后没有文本：已被丢弃。",
    ),
    "text_diff.nothing": ("Nothing changed.", "没有任何改动。"),
    "text_diff.kinds": ("What changed", "改了什么"),
    "text_diff.kind": ("kind", "类别"),
    "text_diff.meaning": ("what it is", "含义"),
    "text_diff.places": ("places", "处数"),
    "text_diff.documents": ("documents", "文档数"),
    "text_diff.went": ("went", "删去"),
    "text_diff.came": ("came", "新增"),
    "text_diff.blanks": (
        "Inside a change, · is a blank, → a tab, ↵ a line feed; other characters nobody can see are shown by number.",
        "改动之内，· 表示空格，→ 表示制表符，↵ 表示换行；其他不可见字符以编号显示。",
    ),
    "text_diff.label": ("{n:,} changed lines of {document}", "{document} 中有 {n:,} 行被修改"),
    "text_diff.more": ("{n:,} more changed lines are not shown.", "另有 {n:,} 行改动未显示。"),
    "text_diff.more_here": ("… {n:,} more changes in this line", "……此行另有 {n:,} 处改动"),
    "text_diff.characters": (
        "{n:,} different characters in the changes: {went:,} went, {came:,} came",
        "改动涉及 {n:,} 种字符：删去 {went:,} 个，新增 {came:,} 个",
    ),
    "text_diff.character": ("character", "字符"),
    "text_diff.name": ("name", "名称"),
    "text_diff.before": ("before: {n:,} characters", "处理前：{n:,} 个字符"),
    "text_diff.after": ("after: {n:,} characters", "处理后：{n:,} 个字符"),
    "text_diff.beside": (
        "Only {share} of the longer text is in both, so both stand side by side; up to {shown:,} characters of each.",
        "较长文本中只有 {share} 两边都有，因此并排显示；各至多 {shown:,} 个字符。",
    ),
    "text_diff.kind_surrogate": (
        "halves of a character, joined or replaced by U+FFFD",
        "半个字符：合并，或替换为 U+FFFD",
    ),
    "text_diff.kind_newlines": ("line ends of another kind", "其他形式的换行"),
    "text_diff.kind_mojibake": ("characters read in a wrong encoding, read again", "以错误编码读入的字符，已重新读取"),
    "text_diff.kind_mojibake_left": (
        "characters that look wrong and were left: nobody can say what they should be",
        "看似有误但保留原样：无法确定应为何字",
    ),
    "text_diff.kind_control": ("control characters, deleted", "控制字符，已删除"),
    "text_diff.kind_invisible": ("invisible characters that say nothing, deleted", "无意义的不可见字符，已删除"),
    "text_diff.kind_direction": (
        "direction marks where no text runs from right to left, deleted",
        "行内没有从右到左文字的方向标记，已删除",
    ),
    "text_diff.kind_joiner": ("joiners between letters that never join, deleted", "从不相连的字母之间的连接符，已删除"),
    "text_diff.kind_blank": ("blanks of another width, now plain ones", "其他宽度的空格，改为普通空格"),
    "text_diff.kind_form": ("words with accents as characters of their own, composed", "重音为独立字符的词，已合成"),
    "text_diff.kind_punctuation": ("typographic marks, now those of a keyboard", "排版标点，改为键盘标点"),
    "text_diff.kind_trailing": ("lines that ended in blanks", "行尾带空格的行"),
    "text_diff.kind_blank_lines": ("more than two empty lines in a row, now two", "连续两行以上的空行，缩为两行"),
    "text_diff.kind_unstable": ("texts that needed too many rounds, left as they were", "需要过多轮次的文本，保留原样"),
    "text_diff.kind_other": ("characters more or fewer", "增减的字符数"),
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
