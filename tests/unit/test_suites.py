"""The runner of all suites: a suite that fails or dies does not stop the others, and the end of the output names the failed tests."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

import suite_folder
import suites
from secret_scan import Scan
from suite_lanes import LANES, Suite
from suites import Runner, report

GOOD = "def test_holds():\n    pass\n"
BAD = "def test_breaks():\n    assert 1 == 2, 'one is not two'\n\ndef test_holds():\n    pass\n"
DEAD = "import os, signal\n\ndef test_dies():\n    os.kill(os.getpid(), signal.SIGKILL)\n"
SLOW = """
import time, pathlib, pytest

@pytest.fixture
def stack():
    yield
    pathlib.Path("stopped").touch()

def test_runs_long(stack):
    pathlib.Path("begun").touch()
    time.sleep(600)
"""
SHOWS = """
def test_breaks():
    address = "postgresql://me:{mark}@db/w"
    print("connected to", address)
    assert not address, address
"""
HELD_UP = "suites.niceness.keep = lambda _: wait_for(suites.PROJECT / 'stopped')"
RUN = """
import sys, pathlib, time, suite_lanes, suites
suites.LOGS = suites.PROJECT = pathlib.Path(sys.argv[1])

def wait_for(file):
    while not file.exists():
        time.sleep(0.05)

{more}
suites.Runner(suites.LOGS).run([[suite_lanes.Suite("slow", ("test_slow.py",), nice=3)]])
"""


@pytest.fixture
def run_lanes(tmp_path, monkeypatch, capsys):
    """Run lanes of (name, text of a test file); return exit code and output."""

    def run(*lanes: list[tuple[str, str]]) -> tuple[int, str]:
        monkeypatch.setattr(suites, "LOGS", tmp_path)
        monkeypatch.setattr(suites, "PROJECT", tmp_path)
        made = []
        for lane in lanes:
            for name, text in lane:
                (tmp_path / f"test_{name}.py").write_text(text)
            made.append([Suite(name, (f"test_{name}.py",)) for name, _ in lane])
        return report(Runner(tmp_path).run(made)), capsys.readouterr().out

    return run


def test_a_secret_in_the_output_or_the_report_of_a_suite_fails_it(run_lanes, monkeypatch):
    mark = "PLANTED".capitalize() + "Mark"  # not that of real secrets: the search of this suite must not find it
    monkeypatch.setattr(suites, "Scan", lambda: Scan((mark,)))
    code, said = run_lanes([("good", GOOD), ("named", GOOD.replace("holds", mark))])
    end = said.partition("Failed, in all suites:")[2]
    assert code == 1
    assert "named\n      a secret is in named.xml" in end
    assert "good\n" not in end


@pytest.mark.parametrize("is_ci", [False, True])
def test_a_secret_in_the_traceback_of_a_failed_test_is_no_second_failure(run_lanes, monkeypatch, is_ci):
    monkeypatch.delenv("CI", raising=False)
    if is_ci:
        monkeypatch.setenv("CI", "true")  # pytest shows more of a failure then
    mark = "PLANTED".capitalize() + "Mark"
    monkeypatch.setattr(suites, "Scan", lambda: Scan((mark,)))
    code, said = run_lanes([("bad", SHOWS.format(mark=mark))])
    assert code == 1
    assert "0 passed, 1 failed, 0 skipped" in said
    assert "a secret is in" not in said


def test_a_secret_is_found_beside_a_failed_test(run_lanes, monkeypatch):
    mark = "PLANTED".capitalize() + "Mark"
    monkeypatch.setattr(suites, "Scan", lambda: Scan((mark,)))
    bad = SHOWS.format(mark=mark)
    _, of_report = run_lanes([("bad", bad + GOOD.replace("holds", mark))])
    assert "a secret is in bad.xml" in of_report
    printing = f"import atexit\natexit.register(print, 'the password is {mark}')\n"
    _, of_log = run_lanes([("bad", printing + bad)])
    assert "a secret is in bad.log" in of_log
    assert "a secret is in bad.xml" not in of_log


def test_a_suite_that_fails_or_dies_stops_no_other_and_is_named_at_the_end(run_lanes):
    code, said = run_lanes([("dead", DEAD), ("good", GOOD)], [("bad", BAD)])
    end = said.partition("Failed, in all suites:")[2]
    assert code == 1
    assert "good         1 passed, 0 failed" in said
    assert "test_bad::test_breaks\n      AssertionError: one is not two" in end
    assert "dead\n      ended with exit code -9; see dead.log" in end
    assert "2 passed, 2 failed, 0 skipped" in end


def test_a_suite_without_a_single_test_has_failed(run_lanes):
    code, said = run_lanes([("empty", "")])
    assert code == 1
    assert "empty\n      ended with exit code 5" in said


def test_a_command_that_fails_shows_the_end_of_its_output(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(suites, "LOGS", tmp_path)
    monkeypatch.setattr(suites, "PROJECT", tmp_path)
    command = (sys.executable, "-c", "print('line 3 is too long'); raise SystemExit(3)")
    assert report(Runner(tmp_path).run([[Suite("style", command=command)]])) == 1
    assert "    line 3 is too long" in capsys.readouterr().out


@pytest.fixture
def in_background(tmp_path, request):
    """Start a run with one slow suite, as a shell starts it in the background: with Ctrl-C ignored. The parameter is more code before it."""
    run = RUN.format(more=getattr(request, "param", ""))
    (tmp_path / "test_slow.py").write_text(SLOW)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN), signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        running = subprocess.Popen([sys.executable, "-c", run, str(tmp_path)], cwd=Path(suites.__file__).parent)
    finally:
        for number, handler in zip((signal.SIGINT, signal.SIGHUP), before, strict=True):
            signal.signal(number, handler)
    deadline = time.monotonic() + 300
    while not (tmp_path / "begun").exists():
        assert time.monotonic() < deadline, "the suite did not begin"
        time.sleep(0.05)
    yield running
    running.terminate()
    running.wait(300)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_asked_to_end_lets_its_suites_stop_their_servers(tmp_path, in_background, how):
    in_background.send_signal(how)
    in_background.wait(300)
    assert (tmp_path / "stopped").exists()


@pytest.mark.parametrize("in_background", [HELD_UP], indirect=True)
def test_a_suite_that_has_just_begun_is_asked_to_end_as_well(tmp_path, in_background):
    """The runner is held up behind the start of the suite until this has stopped its servers."""
    in_background.terminate()
    in_background.wait(300)
    assert (tmp_path / "stopped").exists()


def test_every_suite_ends_beside_a_job_that_keeps_all_processors_busy():
    """Linux gives niceness 6 a fifth of a processor beside niceness 0, and niceness 19 a hundredth."""
    assert max(suite.nice for lane in LANES for suite in lane) <= 6


def test_a_suite_is_as_nice_as_it_is_declared(in_background):
    [suite] = psutil.Process(in_background.pid).children()
    deadline = time.monotonic() + 300
    while suite.nice() != min(os.getpriority(os.PRIO_PROCESS, 0) + 3, 19):
        assert time.monotonic() < deadline, suite.nice()
        time.sleep(0.05)


def test_the_folder_of_a_run_ends_with_it_and_that_of_a_killed_run_with_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr(suite_folder, "_root", lambda: tmp_path)
    killed = subprocess.Popen([sys.executable, "-c", ""])
    killed.wait()
    left, other = tmp_path / f"tideline-tests-{killed.pid}-a", tmp_path / f"tideline-tests-{os.getppid()}-b"
    for folder in (left, other):
        (folder / "postgres").mkdir(parents=True)
    with suite_folder.temporary() as folder:
        (folder / "file").touch()
        assert {*tmp_path.iterdir()} == {folder, other}
    assert [*tmp_path.iterdir()] == [other]
