"""Symptoms: each cause is found with its token, ruled out, or said to be unknown; what to do follows from the found."""

from __future__ import annotations

from prep_lib.chat.symptoms import CAUSES, Finding, Repair, TokenAt, rows_of, symptoms

STOP = Finding(
    "STOP_TOKEN_NOT_IN_GENERATION_CONFIG", "error", "does not stop there", (TokenAt(-1, -1, 3, "<|im_end|>"),),
    values={"stop_token_ids": [3], "eos_token_id": [0, 3], "file": "generation_config.json"},
)  # fmt: skip
LACK = Finding("EOT_NOT_TRAINED", "error", "no stop token", (TokenAt(2, 22, 19, "."),), tuple(range(312)), of=48_120)


def named(name: str, findings: list[Finding], looked: tuple[str, ...] = ("template", "tokenizer", "folder", "data")):  # type: ignore[no-untyped-def]
    return next(one for one in symptoms(findings, looked) if one.name == name)


def test_what_is_not_found_is_ruled_out() -> None:
    for symptom in symptoms([], ("template", "tokenizer", "folder", "data")):
        assert not symptom.found
        assert all(cause.found is False for cause in symptom.causes)
        assert not symptom.advice


def test_what_nobody_looked_at_is_not_ruled_out() -> None:
    causes = {cause.rule: cause for cause in named("never_stops", [], ("template",)).causes}
    assert causes["NO_STOP_ID"].found is None
    assert causes["NO_STOP_ID"].evidence == "no model folder was given"
    assert causes["EOT_NOT_TRAINED"].evidence == "no tokenizer was given"


def test_a_cause_is_found_with_its_token_and_ends_in_what_to_do() -> None:
    symptom = named("never_stops", [STOP, LACK])
    assert symptom.found
    assert [(cause.rule, cause.token and cause.token.text) for cause in symptom.causes if cause.found] == [
        ("EOT_NOT_TRAINED", "."), ("STOP_TOKEN_NOT_IN_GENERATION_CONFIG", "<|im_end|>"),
    ]  # fmt: skip
    assert symptom.advice == (
        "retrain: 312 of 48,120 rows lack the stop token",
        "also add stop_token_ids=[3] to your server",
        "set eos_token_id to [0, 3] in generation_config.json",
    )


def test_the_worst_of_several_findings_of_a_rule_speaks() -> None:
    found = [Finding("EOS_DISAGREES", "note", "small"), Finding("EOS_DISAGREES", "warning", "large")]
    causes = {cause.rule: cause for cause in named("never_stops", found).causes}
    assert causes["EOS_DISAGREES"].evidence == "large"


def test_a_repair_gives_its_advice() -> None:
    found = Finding("SYSTEM_DROPPED", "error", "gone", repair=Repair("fold", None, "fold it"))
    assert named("ignores_system", [found]).advice == ("fold it",)


def test_one_row_is_said_as_one() -> None:
    found = Finding("EOT_NOT_TRAINED", "error", "", rows=(4,), of=10)
    assert named("never_stops", [found]).advice == ("retrain: 1 of 10 rows lacks the stop token",)
    assert rows_of(found, "is", "are") == "1 of 10 rows is"


def test_the_five_symptoms_have_causes() -> None:
    assert list(CAUSES) == ["never_stops", "repeats_prompt", "ignores_system", "starts_with_blank", "loss_zero_or_nan"]
