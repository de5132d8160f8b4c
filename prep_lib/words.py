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
