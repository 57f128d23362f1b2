"""Findings in words, from the command line and from files; and the rules that look at bookings alone."""

import json
from dataclasses import replace
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.utils import translation

from portal.advisor.presenting import VARIANT, told
from portal.advisor.sentences import SENTENCES
from portal.advisor.steps import STEPS
from scheduler.advisor.catalogue import RULES
from scheduler.advisor.findings import Advice
from scheduler.advisor.judging import advise
from scheduler.advisor.recording import PastBooking, Recording, Spread
from scheduler.advisor.trace_files import TraceUnreadable, read_folder, read_trace
from tests.bench.advisor.run import run
from tests.bench.figures import Board
from tests.bench.registry import Options
from tests.traces.causes import FAULTS
from tests.traces.leases import lease
from tests.traces.recordings import recording_of, write_folder


def _with(cause: str, **known) -> Recording:
    made = recording_of(lease(cause, 0, 900, 5))
    return Recording(replace(made.lease, **known), made.ranks)


def _rules(advice: Advice) -> list[str]:
    return [finding.rule for finding in advice.findings]


def test_every_rule_has_its_sentence_and_every_step_its_words():
    rules = {rule.name for rule in RULES}
    assert {key.split(".")[0] for key in SENTENCES} == rules
    assert {key.split(".")[0] for key in SENTENCES if "." in key} == set(VARIANT)
    assert {step for rule in RULES for step in rule.steps} == set(STEPS) - {"rebook_as"}


def test_what_is_found_can_be_said_in_both_languages():
    for cause in FAULTS:
        advice = advise(recording_of(lease(cause.__name__, 0, 1800, 20)))
        sentences = set()
        for language in ("en", "zh-hant"):
            with translation.override(language):
                said = told(advice)
            assert 1 <= len(said["findings"]) <= 3
            for finding in (*said["findings"], *said["notes"]):
                assert "%(" not in finding["sentence"] and "-1" not in finding["sentence"] and finding["changes"]
                sentences.add(finding["sentence"])
            json.dumps(said)
        assert len(sentences) == 2 * (len(advice.findings) + len(advice.notes))


def test_a_rebooking_is_named_by_its_size():
    said = told(advise(recording_of(lease("slice_too_big", 0, 1800, 20))))
    found = next(one for one in said["findings"] if one["rule"] == "slice_too_big")
    assert found["rebook"] in found["sentence"] and found["changes"][0] == f"Rebook as {found['rebook']}."


def test_windows_that_were_left_unused_three_times_are_a_finding():
    short = PastBooking(booked_seconds=86400, used_seconds=10000, days_ago=3)
    assert _rules(advise(_with("healthy_train", past=(short,) * 3))) == ["over_booked_time"]
    assert _rules(advise(_with("healthy_train", past=(short,) * 2))) == []
    assert _rules(advise(_with("healthy_train", past=(replace(short, excused=True),) * 5))) == []
    assert _rules(advise(_with("healthy_train", past=(replace(short, days_ago=30),) * 5))) == []
    assert _rules(advise(_with("healthy_train", past=(replace(short, booked_seconds=17000),) * 3))) == []


def test_a_gang_on_more_nodes_than_it_needs_is_a_finding_where_fewer_had_room():
    spread = Spread(nodes=1, gpus_per_node=8, room_on_fewer=True)
    assert _rules(advise(_with("healthy_train", spread=spread))) == []
    spread = replace(spread, nodes=2)
    found = advise(_with("healthy_train", spread=spread)).findings[0]
    assert (found.rule, found.params) == ("spread_gang", {"gpus": 1, "nodes": 2, "needed": 1})
    assert _rules(advise(_with("healthy_train", spread=replace(spread, room_on_fewer=False)))) == []
    greedy = Spread(nodes=1, gpus_per_node=8, room_on_fewer=False, host_share=2.0, host_used=0.3)
    assert _rules(advise(_with("healthy_train", spread=greedy))) == ["spread_gang"]
    assert _rules(advise(_with("healthy_train", spread=replace(greedy, host_used=0.9)))) == []


def test_a_folder_is_judged_as_its_leases_are(tmp_path, capsys):
    made = [lease("unused_gpu", 0, 700, 3), lease("healthy_train", 0, 700, 3)]
    write_folder(tmp_path, made)
    for one, read in zip(made, read_folder(tmp_path), strict=True):
        assert told(advise(read.recording))["findings"] == told(advise(recording_of(one)))["findings"]
    board = Board()
    run(Options(1, True, {"traces": tmp_path}), board)
    assert not board.is_short and "precision=1 " in capsys.readouterr().out


def test_the_command_prints_findings_in_the_language_asked_for(tmp_path):
    write_folder(tmp_path, [lease("no_process", 0, 700, 3)])
    out = StringIO()
    call_command("advise", trace=tmp_path / "no_process-00.csv", language="zh-hant", stdout=out)
    found = json.loads(out.getvalue())["findings"]
    assert [one["rule"] for one in found] == ["no_process"] and "沒有" in found[0]["sentence"]
    with pytest.raises(CommandError, match="missing.csv"):
        call_command("advise", trace=tmp_path / "missing.csv")


def test_a_file_that_is_no_trace_is_named(tmp_path):
    (tmp_path / "a.csv").write_text("t,gr_active\n0,much\n")
    (tmp_path / "b.csv").write_text("gr_active\n1\n")
    for name in ("a.csv", "b.csv"):
        with pytest.raises(TraceUnreadable, match=name):
            read_trace(tmp_path / name)
    with pytest.raises(TraceUnreadable, match="labels.jsonl"):
        read_folder(tmp_path)
