import pytest

from prep_lib.errors import BadParameter, UnknownName
from prep_lib.text.presets import PRESETS, Rule, RuleSet, load_rules, parse_limits
from prep_lib.text.signals import SIGNALS, Lines

NAMES = ("gopher/datatrove", "gopher/dolma", "c4/datatrove", "fineweb/code", "fineweb/paper", "nemo/english")


def limits(preset, filter_name=""):
    return {
        rule.signal: (rule.low, rule.high)
        for rule in PRESETS[preset].rules
        if rule.name.startswith(filter_name or rule.name)
    }


def test_the_presets_are_there_and_say_whose_they_are():
    assert set(NAMES) < set(PRESETS)
    fineweb2 = {name.removeprefix("fineweb2/") for name in PRESETS if name.startswith("fineweb2/")}
    assert fineweb2 >= {"cmn", "jpn", "kor", "tha", "deu", "fra", "spa", "rus", "arb"}
    for name in PRESETS:
        rules = PRESETS[name]
        assert rules.name == name
        assert rules.languages
        assert "@" in rules.source or "datatrove" in rules.source or "paper" in rules.source
        assert all(rule.name.endswith("." + rule.signal) for rule in rules.rules)


def test_gopher_has_the_limits_of_table_a1():
    assert limits("gopher/datatrove", "gopher_repetition") == {
        "chars": (1, None), "dup_paragraphs": (None, 0.3), "dup_paragraph_chars": (None, 0.2), "dup_lines": (None, 0.3),
        "dup_line_chars": (None, 0.2),
        "top_2_gram": (None, 0.2), "top_3_gram": (None, 0.18), "top_4_gram": (None, 0.16),
        "dup_5_grams": (None, 0.15), "dup_6_grams": (None, 0.14), "dup_7_grams": (None, 0.13),
        "dup_8_grams": (None, 0.12), "dup_9_grams": (None, 0.11), "dup_10_grams": (None, 0.1),
    }  # fmt: skip
    assert limits("gopher/datatrove", "gopher_quality")["plain_words"] == (50, 100_000)


def test_fineweb_is_the_whole_chain_in_its_order_and_code_and_paper_differ_in_one_limit():
    origins = list(dict.fromkeys(rule.name.partition(".")[0] for rule in PRESETS["fineweb/code"].rules))
    assert origins == ["gopher_repetition", "gopher_quality", "c4", "fineweb"]
    assert PRESETS["fineweb/code"].lines == Lines(end_marks=False)
    code, paper = limits("fineweb/code"), limits("fineweb/paper")
    assert {signal for signal in code if code[signal] != paper[signal]} == {"dup_kept_line_chars"}
    assert (code["dup_kept_line_chars"], paper["dup_kept_line_chars"]) == ((None, 0.01), (None, 0.1))


def test_fineweb2_converts_words_to_characters_and_says_so():
    chinese, german = PRESETS["fineweb2/cmn"], PRESETS["fineweb2/deu"]
    assert (chinese.languages, chinese.reading.words) == (("zh",), "character")
    assert limits("fineweb2/cmn")["dup_10_grams"] == (None, 0.198)
    assert "mean_word_length" not in limits("fineweb2/cmn")
    assert any(why.startswith("mean_word_length: off") for why in chinese.off)
    assert limits("fineweb2/deu")["dup_5_grams"] == (None, 0.141)
    assert limits("fineweb2/deu")["mean_word_length"] == (0, 15)
    assert all("language_score" in rules.off[0] for rules in (chinese, german))


def test_every_rule_of_a_preset_has_a_limit_its_signal_can_pass():
    for name in PRESETS:
        for rule in PRESETS[name].rules:
            signal = SIGNALS[rule.signal]
            assert all(signal.low <= limit <= signal.high for limit in (rule.low, rule.high) if limit is not None)


def test_a_rule_naming_an_unknown_signal_is_an_error():
    # dolma's mixer asked for attributes its tagger never wrote, and three rules never fired (D12)
    with pytest.raises(
        UnknownName, match=r"unknown signal of rule 'gopher.x' 'top_2_grams'; did you mean 'top_2_gram'"
    ):
        Rule("gopher.x", "top_2_grams", high=0.2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "has no limit"),
        ({"low": 3, "high": 2}, "keeps nothing: low 3 > high 2"),
        ({"low": "many"}, "must be a number, got 'many'"),
        ({"low": float("nan")}, "must be a number, got nan"),
        ({"high": True}, "must be a number, got True"),
    ],
)
def test_a_rule_that_could_not_work_is_refused(arguments, message):
    with pytest.raises(BadParameter, match=message):
        Rule("x", "words", **arguments)


def test_a_rule_set_needs_rules_of_different_names():
    with pytest.raises(BadParameter, match="has no rules"):
        RuleSet("x", None, ())
    with pytest.raises(BadParameter, match="two rules named 'a'"):
        RuleSet("x", None, (Rule("a", "words", low=1), Rule("a", "chars", low=1)))


def test_a_moved_limit_changes_one_rule():
    preset = PRESETS["gopher/datatrove"]
    changed = preset.moved(parse_limits("gopher/datatrove:gopher_quality.plain_words>=10 other:rule<=1"))
    assert {new.name for new, old in zip(changed.rules, preset.rules, strict=True) if new != old} == {
        "gopher_quality.plain_words"
    }
    with pytest.raises(UnknownName, match=r"did you mean 'gopher/datatrove:gopher_quality\.plain_words>='"):
        preset.moved(parse_limits("gopher/datatrove:gopher_quality.plain_word>=1"))


def test_a_rule_whose_limits_are_off_is_left_out():
    rules = RuleSet("mine", None, (Rule("a", "words", low=1), Rule("b", "words", low=1, high=9)))
    assert rules.moved(parse_limits("mine:a>=off mine:b<=off")).rules == (Rule("b", "words", low=1),)
    assert rules.moved(parse_limits("mine:a>=off mine:b<=off mine:b>=off")) is None


MINE = """
name: team/news
languages: [en]
base: fineweb/code
stop_words: [the, a]
lines: {min_words: 5}
rules:
- {name: fineweb.short_lines, remove: true}
- {name: gopher_quality.plain_words, low: 80, high: 50000}
- {signal: digits, high: 0.1}
source: our own
"""


def test_your_own_rules_in_yaml(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(MINE)
    rules = load_rules(file)
    assert (rules.name, rules.languages, rules.source) == ("team/news", ("en",), "our own")
    assert rules.lines == Lines(min_words=5)
    assert rules.reading.stop_words == ("the", "a")
    told = {rule.name: (rule.low, rule.high) for rule in rules.rules}
    assert told["gopher_quality.plain_words"] == (80, 50_000)
    assert "fineweb.short_lines" not in told
    assert rules.rules[-1] == Rule("digits", "digits", high=0.1)
    assert len(rules.rules) == len(PRESETS["fineweb/code"].rules)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: x\nrule: []", "unknown key in .* 'rule'; did you mean 'rules'"),
        ("name: x\nrules: [{signal: word, low: 1}]", "unknown signal of rule 'word' 'word'; did you mean 'words'"),
        ("name: x\nrules: [{signal: words, lo: 1}]", "unknown key in a rule of .* 'lo'; did you mean 'low'"),
        ("name: x\nrules: [{signal: words, low: '1'}]", "must be a number, got '1'"),
        ("name: x\nwords: englisch\nrules: []", "unknown words of .* 'englisch'; did you mean 'english'"),
        ("name: x\nbase: fineweb\nrules: []", "unknown rule set 'fineweb'"),
        ("name: x\nlines: {min_word: 3}\nrules: []", "unknown key in lines of .* 'min_word'; did you mean 'min_words'"),
        ("name: x\nlines: 3\nrules: []", "must be a mapping or empty, got 3"),
        ("name: x\nlanguages: [no]\nrules: []", "must be texts"),
        ("name: x\nrules: {a: 1}", "rules of .* must be a list"),
        ("name: x\nrules: [words]", "a rule of .* must be a mapping, got 'words'"),
        ("name: x\nrules: [{low: 1}]", "needs a signal"),
        ("name: x\nrules: [{name: y, remove: true}]", "unknown rule to remove in .* 'y'"),
        (
            "name: fineweb/code\nrules: [{signal: words, low: 1}]",
            "needs a name .* that no preset has, got 'fineweb/code'",
        ),
        ("rules: []", "needs a name"),
        ("name: x", "has no rules"),
        ("- a", "must be a mapping with name and rules, got list"),
        ("a: [", "cannot be read as YAML"),
    ],
)
def test_a_file_that_could_not_work_is_refused(tmp_path, text, message):
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(BadParameter, match=message):
        load_rules(file)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(BadParameter, match=r"none\.yaml cannot be read as YAML"):
        load_rules(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("rules: [{signal: words, low: 3}, {signal: words, high: 9}]", "two rules of .* are called 'words'"),
        ("name: again\nrules: [{signal: words, low: 3}]", "'name' stands here twice in line 1"),
        ("rules: [{signal: words, low: 3, low: 4}]", "'low' stands here twice in line 2"),
        ("base: c4/datatrove\nrules: [{name: c4.braces, remove: 'no'}]", "must be true or false"),
        ("lines: {end_marks: 'no'}\nrules: [{signal: words, low: 3}]", "end_marks in lines of .* must be a bool"),
        ("base: [x]\nrules: []", "unknown"),
        ("words: [english]\nrules: [{signal: words, low: 3}]", "unknown words of"),
        ("rules: [{signal: words, low: .inf}]", "must be a number, got inf"),
        ("rules: [{signal: words, low: " + "9" * 400 + "}]", "must be a number, got 9"),
        ("rules: [{signal: words, low: 3}", "cannot be read as YAML: .* in line"),
    ],
)
def test_what_a_file_says_is_never_read_as_something_else(tmp_path, text, told):
    (tmp_path / "mine.yaml").write_text(f"name: mine\n{text}\n")
    with pytest.raises(BadParameter, match=told):
        load_rules(tmp_path / "mine.yaml")
