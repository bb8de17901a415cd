"""Costly test modules take turns: a few consecutive commits run each of them once."""

from itertools import chain

import suites
import turns
from suite_lanes import Suite
from tideline.settings import PROJECT


def test_each_module_has_its_turn_once_in_a_few_commits():
    every = [*chain.from_iterable(turns.GROUPS)]
    left_out = [turns.left_out(number) for number in range(len(turns.GROUPS))]
    assert [len(every) - len(modules) for modules in left_out] == [len(group) for group in turns.GROUPS]
    assert all(sum(module not in modules for modules in left_out) == 1 for module in every)


def test_a_module_that_takes_turns_exists():
    assert [name for name in chain.from_iterable(turns.GROUPS) if not (PROJECT / name).is_file()] == []


def test_what_is_left_out_is_not_collected(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(suites, "LOGS", tmp_path)
    monkeypatch.setattr(suites, "PROJECT", tmp_path)
    for name in ("one", "two"):
        (tmp_path / f"test_{name}.py").write_text("def test_holds():\n    pass\n")
    suite = Suite("both", (".",)).without(["test_two.py"])
    assert suites.report(suites.Runner().run([[suite]])) == 0
    assert "1 passed" in capsys.readouterr().out
