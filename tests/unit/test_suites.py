"""The runner of all suites: one that fails or dies keeps no other from running, and the end of the output names what failed."""

import sys

import pytest

import suites
from suites import Runner, Suite, report

GOOD = "def test_holds():\n    pass\n"
BAD = "def test_breaks():\n    assert 1 == 2, 'one is not two'\n\ndef test_holds():\n    pass\n"
DEAD = "import os, signal\n\ndef test_dies():\n    os.kill(os.getpid(), signal.SIGKILL)\n"


@pytest.fixture
def told(tmp_path, monkeypatch, capsys):
    """Run lanes of (name, text of a test file) and return exit code and output."""

    def run(*lanes: list[tuple[str, str]]) -> tuple[int, str]:
        monkeypatch.setattr(suites, "LOGS", tmp_path)
        monkeypatch.setattr(suites, "PROJECT", tmp_path)
        made = []
        for lane in lanes:
            for name, text in lane:
                (tmp_path / f"test_{name}.py").write_text(text)
            made.append([Suite(name, (f"test_{name}.py",)) for name, _ in lane])
        return report(Runner().run(made)), capsys.readouterr().out

    return run


def test_a_suite_that_fails_or_dies_keeps_no_other_from_running_and_is_named_at_the_end(told):
    code, said = told([("dead", DEAD), ("good", GOOD)], [("bad", BAD)])
    end = said.partition("Failed, in all suites:")[2]
    assert code == 1
    assert "good         1 passed, 0 failed" in said
    assert "test_bad::test_breaks\n      AssertionError: one is not two" in end
    assert "dead\n      ended with exit code -9; see dead.log" in end
    assert "2 passed, 2 failed, 0 skipped" in end


def test_a_suite_without_a_single_test_has_failed(told):
    code, said = told([("empty", "")])
    assert code == 1
    assert "empty\n      ended with exit code 5" in said


def test_a_command_that_fails_shows_the_end_of_its_output(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(suites, "LOGS", tmp_path)
    monkeypatch.setattr(suites, "PROJECT", tmp_path)
    command = (sys.executable, "-c", "print('line 3 is too long'); raise SystemExit(3)")
    assert report(Runner().run([[Suite("style", command=command)]])) == 1
    assert "    line 3 is too long" in capsys.readouterr().out
