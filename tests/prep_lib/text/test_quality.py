import gzip
import json
import pickle

import numpy as np
import pytest
from conftest import ROOT, shared

from prep_lib.errors import BadParameter, BadRecord, UnknownName
from prep_lib.record import Cut, Document, Drop
from prep_lib.stage import contract, run
from prep_lib.text.presets import PRESETS, Rule, RuleSet
from prep_lib.text.quality import Quality, decide, health

GOLDEN = ROOT / "tests/golden"
#: What datatrove calls the reason of a drop, and the rule that drops here.
REASONS = {
    "": "", "lorem_ipsum": "c4.lorem_ipsum", "curly_bracket": "c4.braces", "too_few_sentences": "c4.sentences",
    "dup_para_frac": "gopher_repetition.dup_paragraphs", "dup_para_char_frac": "gopher_repetition.dup_paragraph_chars",
    "dup_line_frac": "gopher_repetition.dup_lines", "dup_line_char_frac": "gopher_repetition.dup_line_chars",
    **{f"top_{n}_gram": f"gopher_repetition.top_{n}_gram" for n in (2, 3, 4)},
    **{f"duplicated_{n}_n_grams": f"gopher_repetition.dup_{n}_grams" for n in range(5, 11)},
    "gopher_short_doc": "gopher_quality.plain_words", "gopher_long_doc": "gopher_quality.plain_words",
    "gopher_below_avg_threshold": "gopher_quality.mean_word_length", "gopher_too_many_hashes": "gopher_quality.hashes",
    "gopher_above_avg_threshold": "gopher_quality.mean_word_length",
    "gopher_too_many_ellipsis": "gopher_quality.ellipses",
    "gopher_too_many_bullets": "gopher_quality.bullet_lines", "gopher_enough_stop_words": "gopher_quality.stop_words",
    "gopher_too_many_end_ellipsis": "gopher_quality.ellipsis_lines", "line_punct_ratio": "fineweb.end_mark_lines",
    "gopher_below_alpha_threshold": "gopher_quality.alpha_words", "short_line_ratio": "fineweb.short_lines",
    "char_dup_ratio": "fineweb.dup_kept_line_chars", "list_ratio": "fineweb.newlines",
}  # fmt: skip
EXACT = ("gopher/datatrove", "c4/datatrove", "fineweb/code", "fineweb/paper")


def rule_of(quality, text, language="en"):
    verdict = quality.judge(Document("1", text, meta={"language": language}))
    return verdict.reason.partition(":")[2] if isinstance(verdict, Drop) else ""


def same(reason, rule):
    # "empty" is said by the first filter of a chain that sees nothing.
    return rule == REASONS[reason] if reason != "empty" else rule in ("gopher_repetition.chars", "fineweb.filled_lines")


@pytest.mark.parametrize("preset", EXACT)
def test_golden_documents_are_judged_as_datatrove_judges_them(preset):
    documents = json.loads(gzip.decompress((GOLDEN / "quality_documents.json.gz").read_bytes()))
    quality, reasons = Quality(rules=preset, force=True), set()
    for doc in documents:
        said = doc["verdicts"][preset]
        assert same(said, rule_of(quality, doc["text"])), doc["id"]
        reasons.add(said)
    assert len(reasons) > (2 if preset == "c4/datatrove" else 12)


@pytest.mark.parametrize("preset", EXACT[:3])
def test_a_fifth_of_the_mixture_is_judged_as_datatrove_judges_it(preset):
    folder = shared("mixture")
    golden = json.loads(gzip.decompress((GOLDEN / "quality_mixture.json.gz").read_bytes()))
    said = {letter: reason for reason, letter in golden["codes"].items()}
    quality, seen = Quality(rules=preset, force=True), 0
    for name, codes in golden["files"].items():
        data = (folder / name).read_bytes()
        lines = (gzip.decompress(data) if name.endswith(".gz") else data).splitlines()
        for place in range(EXACT.index(preset), len(lines), 15):
            text = json.loads(lines[place])["text"]
            assert same(said[codes[preset][place]], rule_of(quality, text)), (name, place)
            seen += 1
    assert seen > 450


PROSE = (
    "The harbour wakes before the town does, and the baker is the first to open a door. By noon the nets have been "
    "mended and hung to dry, while children look for crabs between the stones. Nobody hurries here, because the tide "
    "decides when work begins. In the evening the lamps are lit, one after the other, along the quay. Old men sit down "
    "with a glass of something and talk about the weather that they have seen. It is a quiet life, and most would not "
    "change it for another."
)
CHINESE = (
    "清晨的港口总是比小镇醒得更早。渔民们把渔网搬到船上，海鸥在石头上争抢剩下的小鱼。到了六点，面包店的门已经打开，香味沿着码头慢慢飘散。"
    "没有人着急，因为什么时候开工由潮水决定，而潮水从来不听任何人的话。中午时分，补好的渔网挂在木架上晾晒，孩子们在礁石之间寻找螃蟹。"
    "老人坐在屋檐下面，谈论着这些年来经历过的天气和那些再也没有回来的船。傍晚，灯一盏接一盏地亮起来，把整条街照得温暖而安静。"
    "这样的生活并不富裕，却也没有几个人愿意拿它去交换别的什么。等到夜深了，只剩下海浪拍打堤岸的声音，和远处灯塔缓慢转动的光。"
)
KOREAN = (
    "새벽의 항구는 언제나 마을보다 먼저 깨어난다. 어부들은 그물을 배로 옮기고 갈매기들은 돌 위에 남은 "
    "물고기를 두고 다툰다. 여섯 시가 되면 빵집 문이 열리고 고소한 냄새가 부두를 따라 퍼진다. 아무도 서두르지 "
    "않는데, 일을 시작할 때를 정하는 것은 물때이기 때문이다. 저녁에는 등불이 하나씩 켜지고 "
    "노인들은 처마 밑에 앉아 지난 세월의 날씨를 이야기한다."
)
THAI = (
    "ท่าเรือตื่นก่อนเมืองเสมอ ชาวประมงขนอวนลงเรือ และนกนางนวลแย่งปลาที่เหลืออยู่บนก้อนหิน "
    "พอถึงหกโมงเช้าร้านขนมปังก็เปิดประตู กลิ่นหอมลอยไปตามท่าน้ำ "
    "ไม่มีใครรีบร้อน เพราะเวลาทำงานขึ้นอยู่กับน้ำขึ้นน้ำลง ตอนเย็นโคมไฟถูกจุดขึ้นทีละดวง คนแก่นั่งคุยกันเรื่องอากาศที่เคยพบเจอในชีวิตของเขา "
    "ชีวิตแบบนี้เงียบสงบ และมีน้อยคนที่อยากจะแลกมันกับสิ่งอื่น"
)
JAPANESE = (
    "港はいつも町より早く目を覚ます。漁師たちは網を船に運び、カモメは石の上に残った魚を奪い合う。六時になるとパン屋の扉が開き、香りが岸壁に沿って流れていく。"
    "誰も急がないのは、仕事の始まりを決めるのが潮だからである。夕方には灯りが一つずつともり、老人たちは軒下に腰を下ろして、昔の天気の話をしている。"
    "静かな暮らしだが、これを他の何かと取り替えたいと思う人は少ない。"
)


@pytest.mark.parametrize(
    ("rules", "language", "text"),
    [
        ("gopher/datatrove", "en", PROSE), ("gopher/dolma", "en", PROSE), ("nemo/english", "en", PROSE),
        ("fineweb/code", "en", PROSE), ("fineweb/paper", "en", PROSE), ("c4/datatrove", "en", PROSE),
        ("fineweb2/cmn", "zh", CHINESE), ("fineweb2/kor", "ko", KOREAN), ("fineweb2/tha", "th", THAI),
        ("fineweb2/jpn", "ja", JAPANESE),
    ],
)  # fmt: skip
def test_clean_paragraphs_pass_the_filter_of_their_language(rules, language, text):
    # datatrove#135 (BUG-021): Chinese, Korean and Thai are not one long word
    assert Quality(rules=rules).judge(Document("1", text, meta={"language": language})) is None


def test_chinese_lengths_are_in_characters():
    # mozilla/translations#742 (BUG-022)
    quality = Quality(rules="fineweb2/cmn")
    column = quality.signals.index("plain_words")
    short, essay = "海鸥在石头上争抢小鱼。", (CHINESE + "  ") * 7
    lengths = [quality.measure(Document("1", text, meta={"language": "zh"}))[column] for text in (short, essay)]
    assert lengths[0] == 10
    assert 1_500 < lengths[1] < len(essay)


SHORT = [
    "Bread is warm now.",
    "Fish must be cold.",
    "Rain may come soon.",
    "Few would leave.",
    "Boats lie still there.",
]
BROKEN = {
    "gopher/datatrove": [
        ("", "gopher_repetition.chars"), (PROSE + "\n\n" + PROSE, "gopher_repetition.dup_paragraphs"),
        (PROSE + "\n" + PROSE, "gopher_repetition.dup_lines"), (PROSE + " " + PROSE, "gopher_repetition.dup_5_grams"),
        (PROSE[:200], "gopher_quality.plain_words"),
        (PROSE.replace(" the ", " #the ").replace(" and ", " #and ").replace(" a ", " #a "), "gopher_quality.hashes"),
        (PROSE.replace(". ", " … ").replace(", ", " … "), "gopher_quality.ellipses"),
        ("\n".join("- " + line for line in PROSE.split(". ")), "gopher_quality.bullet_lines"),
        ("\n".join(line + "..." for line in PROSE.split(". ")), "gopher_quality.ellipsis_lines"),
        (PROSE + " " + " ".join(str(n * n) for n in range(40)), "gopher_quality.alpha_words"),
        (PROSE.upper(), "gopher_quality.stop_words"),
    ],
    "c4/datatrove": [
        ("Two. Sentences here in it.", "c4.sentences"), (PROSE + "\nHere is a { brace.", "c4.braces"),
        ("Lorem ipsum says it all.\n" + PROSE, "c4.lorem_ipsum"), ("No mark at the end\n" * 9, "c4.sentences"),
    ],
    "fineweb/code": [
        (PROSE.replace(". ", "\n").removesuffix("."), "fineweb.end_mark_lines"),
        ("It is late.\n" + PROSE.replace(". ", ".\n") + "\nIt is late.", "fineweb.dup_kept_line_chars"),
        (PROSE + "\n" + "\n".join(SHORT), "fineweb.short_lines"),
        ("x{y}\n" + PROSE, ""), ("He says {y}\n" + PROSE, "c4.braces"),
    ],
    "gopher/dolma": [
        (PROSE[:200], "gopher.words"), (" ".join("a" * (n % 2 + 1) for n in range(80)), "gopher.median_word_length"),
        (PROSE + " #" * 20, "gopher.symbol_words"), (PROSE.upper(), "gopher.stop_word_hits"),
        ("\n".join("* " + line for line in PROSE.split(". ")), "gopher.star_lines"),
        ("\n\n".join(PROSE.split(". ")), "gopher.copied_lines"), (PROSE + " " + PROSE, "gopher.copied_5_grams"),
        (PROSE + " of the" * 30, "gopher.most_2_gram"),
    ],
    "nemo/english": [
        (PROSE + " *&^%$" * 60, "nemo.odd_chars"), (PROSE + "\n12 34 56 78" * 20, "nemo.digits"),
        (PROSE + " https://example.org/" + "a" * 200, "nemo.url_chars"), (PROSE + " " * 200, "nemo.odd_chars"),
        (PROSE + "\n\nThis site uses cookies.", "nemo.boilerplate"), (PROSE[:200], "nemo.words"),
        (PROSE + "\n" + "Again.\n" * 9, "nemo.unique_lines"), ("\n".join(PROSE.split(" ")), "nemo.open_lines"),
        (PROSE.upper(), "nemo.stop_word_hits"), (PROSE + " " + PROSE, "nemo.repeated_5_grams"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("rules", "text", "rule"), [(name, *case) for name, cases in BROKEN.items() for case in cases])
def test_each_preset_on_documents_made_for_it(rules, text, rule):
    assert rule_of(Quality(rules=rules), text) == rule


def test_a_drop_tells_the_value_and_the_limit_it_passed():
    words = " ".join(f"harbour{letter}" for letter in "abcdefghijklmnopqrstuvwxyz")
    short = Quality(rules="gopher/datatrove").judge(Document("1", words, meta={"language": "en"}))
    assert short == Drop("gopher/datatrove:gopher_quality.plain_words", value=26.0, limit=50.0)
    plain = Quality(rules="gopher/dolma").judge(Document("1", "ox " * 60, meta={"language": "en"}))
    assert plain == Drop("gopher/dolma:gopher.median_word_length", value=2.0, limit=3.0)


def test_line_rules_cut_and_the_cut_text_is_what_fineweb_looks_at():
    text = (
        "Menu\n" + PROSE + "\n\nWe say how: this site uses cookies.\n" + PROSE.replace("harbour", "haven")[:120] + "."
    )
    doc = Document("1", text, meta={"language": "en"})
    verdict = Quality(rules="c4/datatrove").judge(doc)
    assert isinstance(verdict, Cut)
    assert verdict.reason == "c4/datatrove:lines"
    assert verdict.apply(text) == PROSE + "\n" + PROSE.replace("harbour", "haven")[:120] + "."


def test_braces_hit_what_has_braces_and_nothing_else():
    # datatrove#123 (BUG-019)
    texts = [PROSE] * 10 + [
        PROSE + "\nA line with { in it.",
        PROSE + "\nA line with } in it.",
        PROSE + "\nTwo {} of them here.",
    ]
    quality = Quality(rules="c4/datatrove")
    values = np.array([quality.measure(Document("1", text, meta={"language": "en"})) for text in texts])
    decided = decide(PRESETS["c4/datatrove"], values)
    assert decided.tolist() == [-1] * 10 + [1, -1, 1]


def test_one_run_routes_by_language():
    docs = [
        Document("1", PROSE, meta={"language": "en"}), Document("2", CHINESE, meta={"language": "zh"}),
        Document("3", "Kurz.", meta={"language": "de"}), Document("4", "Short.", meta={"language": "en"}),
        Document("5", "12", meta={"language": "zxx"}),
    ]  # fmt: skip
    quality = Quality(rules="en=fineweb/code zh=fineweb2/cmn other=pass")
    result = run([quality], docs)
    assert [doc.id for doc in result.kept] == ["1", "2", "3", "5"]
    assert [each.drop.reason for each in result.dropped] == ["fineweb/code:gopher_repetition.top_2_gram"]
    values = np.array([quality.measure(doc) for doc in docs])
    np.testing.assert_array_equal(quality.measure_many(docs), values)
    english, chinese = quality.signals.index("end_mark_lines"), quality.signals.index("top_4_gram")
    assert np.isnan(values[2]).all()
    assert np.isnan(values[0]).tolist() != np.isnan(values[1]).tolist()
    assert not np.isnan(values[[0, 1], [english, chinese]]).any()


@pytest.mark.parametrize(
    ("rules", "meta", "message"),
    [
        (
            "fineweb/code",
            {"language": "zh"},
            r"'fineweb/code' was made for en, not for 'zh'; give zh=pass .*\(document d7\)",
        ),
        ("en=fineweb2/cmn other=pass", {"language": "en"}, "'fineweb2/cmn' was made for zh, not for 'en'"),
        (
            "fineweb/code",
            {},
            r"no meta\['language'\]; run the language stage first, or give force=True \(document d7\)",
        ),
        ("en=fineweb/code zh=pass", {"language": "fr"}, "say nothing about language 'fr'; add fr=pass"),
        ("en=fineweb/code", {"language": "und"}, "say nothing about language 'und'; add und=pass"),
        ("fineweb/code", {"language": "zxx"}, "not for 'zxx'"),
    ],
)
def test_a_language_outside_the_design_is_an_error(rules, meta, message):
    with pytest.raises(BadParameter, match=message):
        Quality(rules=rules).judge(Document("d7", PROSE, meta=meta))


def test_force_lifts_it():
    assert Quality(rules="fineweb/code", force=True).judge(Document("1", PROSE)) is None
    assert Quality(rules="en=fineweb/code", force=True).judge(Document("1", PROSE)) is None
    assert isinstance(
        Quality(rules="fineweb/code", force=True).judge(Document("1", CHINESE, meta={"language": "zh"})), Drop
    )
    with pytest.raises(BadParameter, match="no meta"):
        Quality(rules="en=fineweb/code zh=pass", force=True).judge(Document("1", PROSE))


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("fineweb/cod", "unknown rule set 'fineweb/cod'; did you mean 'fineweb/code'"),
        ("en=fineweb/cod", "unknown rule set"),
        ("en=fineweb/code zh", "'zh' in rules must be LANGUAGE=RULESET"),
        ("en=pass en=fineweb/code", "rules name 'en' twice"),
        ("", "must name a rule set"),
        ("none.yaml", "none.yaml cannot be read"),
    ],
)
def test_rules_that_could_not_work_are_refused_at_birth(rules, message):
    with pytest.raises((BadParameter, UnknownName), match=message):
        Quality(rules=rules)


def test_a_judge_that_carries_its_rules(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("name: mine\nrules: [{signal: words, low: 20}]\n")
    quality = Quality(rules=str(file))
    file.unlink()
    again = pickle.loads(pickle.dumps(quality))
    assert contract(quality) == "judge"
    assert again.judge(Document("1", "Five words, not twenty.")) == Drop("mine:words", value=6.0, limit=20.0)
    assert again.judge(Document("1", PROSE)) is None


def test_rules_that_leave_nothing_drop_the_document(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("name: mine\nlines: {min_words: 50}\nrules: [{signal: words, low: 1}]\n")
    assert Quality(rules=str(file)).judge(Document("1", "Too short a line.")) == Drop(
        "mine:lines", value=0.0, limit=1.0
    )


MINE = RuleSet("mine", ("en",), (Rule("length", "words", low=3), Rule("signs", "hashes", high=0.1)))


def test_a_table_is_decided_as_documents_are():
    quality = Quality(rules="fineweb/code")
    docs = [Document(str(n), text, meta={"language": "en"}) for n, (text, _) in enumerate(BROKEN["gopher/datatrove"])]
    values = np.array([quality.measure(doc) for doc in docs])
    places = decide(PRESETS["fineweb/code"], values).tolist()
    reasons = [f"fineweb/code:{PRESETS['fineweb/code'].rules[place].name}" if place >= 0 else None for place in places]
    assert reasons == [
        getattr(quality.verdict(doc, row), "reason", None) for doc, row in zip(docs, values, strict=True)
    ]


def test_what_could_not_be_measured_is_never_clean():
    # dolma's tagger left zeros where it failed (D13)
    values = np.array([[5, np.nan], [np.nan, 0.0], [5, 0.0]])
    assert decide(MINE, values).tolist() == [1, 0, -1]
    assert [(f.kind, f.rule, f.share) for f in health(MINE, values) if f.kind == "not_measured"] == [
        ("not_measured", "length", 1 / 3), ("not_measured", "signs", 1 / 3)
    ]  # fmt: skip


def test_health_names_rules_that_do_nothing_everything_or_something_else():
    values = np.array([[1, 0.0], [2, 0.0], [9, 0.0], [9, -1.0]])
    found = {(finding.kind, finding.rule): finding for finding in health(MINE, values, ["en", "en", "zh", "fr"])}
    assert set(found) == {
        ("fired_often", "length"), ("never_fired", "signs"), ("out_of_range", "signs"),
        ("other_language", "zh"), ("other_language", "fr"),
    }  # fmt: skip
    assert found["fired_often", "length"].share == 0.5
    assert (found["out_of_range", "signs"].value, found["other_language", "zh"].share) == (-1.0, 0.25)


def test_health_sees_limits_no_value_can_pass_and_what_a_preset_leaves_out():
    odd = RuleSet("odd", None, (Rule("letters", "alpha_words", low=1.5),))
    assert [finding.kind for finding in health(odd, np.zeros((0, 1)))] == ["limit_out_of_range"]
    chinese = PRESETS["fineweb2/cmn"]
    off = [finding.rule for finding in health(chinese, np.zeros((0, len(chinese.signals)))) if finding.kind == "off"]
    assert any(why.startswith("words: a character is a word") for why in off)


def test_a_table_of_another_shape_is_refused():
    with pytest.raises(BadParameter, match=r"needs a table \(documents, 2\), got shape \(3,\)"):
        decide(MINE, np.zeros(3))


def test_moved_limits_are_in_force_and_unknown_ones_refused():
    doc = Document("1", "Far too short.", meta={"language": "en"})
    assert Quality(rules="gopher/datatrove").judge(doc) is not None
    name = "gopher/datatrove:gopher_quality.plain_words"
    quality = Quality(rules="en=gopher/datatrove other=pass", limits=f"{name}>=off {name}<=off")
    assert name in Quality(rules="gopher/datatrove").reasons
    assert name not in quality.reasons
    assert quality.verdict(doc, quality.measure(doc)).reason in quality.reasons
    with pytest.raises(UnknownName, match="did you mean 'gopher/datatrove'"):
        Quality(limits="gopher/datatrov:gopher_quality.plain_words>=1")
    with pytest.raises(BadParameter, match="is no limit"):
        Quality(limits="words>30")


@pytest.mark.parametrize("code", ["EN", "english", "eng", "xx"])
def test_a_code_that_no_document_will_have_is_refused(code):
    with pytest.raises(UnknownName, match=f"unknown language in rules '{code}'"):
        Quality(rules=f"{code}=fineweb/code other=pass")
    assert Quality(rules=f"{code}=fineweb/code other=pass", force=True).route(code).name == "fineweb/code"


def test_a_forgotten_language_stage_is_never_a_pass():
    doc = Document("a#L1", "Far too short.")
    for rules in ("en=fineweb/code other=pass", "other=pass", "en=fineweb/code", "fineweb/code"):
        with pytest.raises(BadParameter, match="run the language stage first"):
            Quality(rules=rules).judge(doc)


@pytest.mark.parametrize("language", [["en"], 7, ""])
def test_a_language_that_is_no_code_fails_its_document_alone(language):
    with pytest.raises(BadRecord, match="no_language_code"):
        Quality(rules="en=fineweb/code other=pass").judge(Document("a", "text", meta={"language": language}))


def test_two_rule_sets_of_one_name_are_refused(tmp_path):
    for name, signal in (("one", "words"), ("two", "chars")):
        (tmp_path / f"{name}.yaml").write_text(f"name: mine\nrules: [{{signal: {signal}, low: 3}}]\n")
    with pytest.raises(BadParameter, match="two rule sets are named 'mine'"):
        Quality(rules=f"en={tmp_path}/one.yaml zh={tmp_path}/two.yaml other=pass")
    Quality(rules=f"en={tmp_path}/one.yaml zh={tmp_path}/one.yaml other=pass")


def test_limits_are_one_text():
    with pytest.raises(BadParameter, match="limits must be one text"):
        Quality(limits=None)
