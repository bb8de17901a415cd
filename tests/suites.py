"""Run every suite of the project, in parallel lanes, and report at the end what failed in all of them and what took longest.

    python tests/suites.py [NAME ...]    every suite, or those named

A suite is a process of its own: one that fails, hangs or dies does not stop the others. Its output is in .local/log/tests/NAME.log.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, NamedTuple

import pytest_report
import suite_folder
import suite_leaks
from secret_scan import Scan
from suite_lanes import LANES, Suite
from tideline_stack import niceness

PROJECT = Path(__file__).resolve().parents[1]
LOGS = PROJECT / ".local" / "log" / "tests"
SLOWEST = 10
_PROGRESS_EVERY_S = 60.0
_TAIL = 15
_PATIENCE_S = 180.0
"""Time limit in seconds for a suite to stop: it stops a whole stack, whose scheduler waits for its tasks. Killed earlier, it leaves them running."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a suite."""

    suite: Suite
    seconds: float
    code: int
    processor_s: float = 0.0
    """Processor time in seconds of the suite and of all processes that it waited for, its servers among them."""
    passed: int = 0
    skipped: int = 0
    failed: list[tuple[str, str]] = field(default_factory=list)
    """Each failed test, with the first line of the reason."""
    times: list[tuple[float, str]] = field(default_factory=list)

    def __str__(self) -> str:
        counted = f"{self.passed} passed, {len(self.failed)} failed" if self.suite.tests else "passed"
        if not self.suite.tests and self.failed:
            counted = "failed"
        processor = f"{self.processor_s / 60:5.1f} min of processor time"
        return f"{self.suite.name:<12} {counted:<24} {self.seconds / 60:5.1f} min, {processor}"


class _Running(NamedTuple):
    """A suite that was started."""

    pid: int
    has_ended: threading.Event


class Runner:
    """Runs the lanes and knows which processes live.

    Args:
        folder: Where the suites put their temporary files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._begun = time.monotonic()
        self._lock = threading.Lock()
        self._running: dict[str, _Running] = {}
        self._stopping = threading.Event()
        self._is_asked_to_end = False

    def run(self, lanes: Sequence[Sequence[Suite]]) -> list[Outcome]:
        """Run all lanes to their ends; return the result of each suite, in the order of the lanes."""
        # Closing the terminal does not reach suites, which are sessions of their own.
        for asked in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(asked) != signal.SIG_IGN:  # as under nohup
                signal.signal(asked, self._ask_to_end)
        # A shell that starts this in the background makes its programs ignore Ctrl-C, and suites would ignore the signal that ends them.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with ThreadPoolExecutor(len(lanes)) as pool:
            futures = [pool.submit(self._lane, lane) for lane in lanes]
            try:
                reported = time.monotonic()
                while not all(future.done() for future in futures) and not self._is_asked_to_end:
                    time.sleep(0.2)
                    if time.monotonic() - reported > _PROGRESS_EVERY_S:
                        reported = time.monotonic()
                        self._say(", ".join(f"{name} {_progress(name)}" for name in sorted(self._running)))
            except KeyboardInterrupt:
                self._is_asked_to_end = True
            finally:
                if self._is_asked_to_end:
                    self._stopping.set()
                    self._stop()
        return [outcome for future in futures for outcome in future.result()]

    def _ask_to_end(self, *_: object) -> None:
        """Handle a signal. It interrupts this thread anywhere: to set an event, whose lock the thread may hold, would wait for ever."""
        self._is_asked_to_end = True

    def _lane(self, suites: Sequence[Suite]) -> list[Outcome]:
        done: list[Outcome] = []
        for suite in suites:
            outcome = self._suite(suite)
            if outcome is None:
                break
            done.append(outcome)
            self._say(str(outcome))
        return done

    def _suite(self, suite: Suite) -> Outcome | None:
        """Run a suite; return None if the run was asked to end before."""
        begun = time.monotonic()
        (LOGS / f"{suite.name}.xml").unlink(missing_ok=True)
        with (LOGS / f"{suite.name}.log").open("wb") as log:
            process = self._start(suite, log)
            if process is None:
                return None
            # Only this thread waits for the process: of two that do, one would find no child, and lose its result.
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            with self._lock:
                self._running.pop(suite.name).has_ended.set()
        outcome = with_leaks(read(suite, time.monotonic() - begun, process.returncode))
        return replace(outcome, processor_s=used.ru_utime + used.ru_stime)

    def _start(self, suite: Suite, log: BinaryIO) -> subprocess.Popen[bytes] | None:
        """Start a suite, unless the run was asked to end."""
        # A suite that has begun and is not known yet would miss the signal that ends all suites, and run to its end.
        with self._lock:
            if self._stopping.is_set():
                return None
            process = subprocess.Popen(
                suite.argv(LOGS / f"{suite.name}.xml"),
                cwd=PROJECT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=_environment(self._folder),
                start_new_session=True,  # Linux schedules by session: within one session all suites would have the same priority
            )
            self._running[suite.name] = _Running(process.pid, threading.Event())
        os.setpriority(os.PRIO_PROCESS, process.pid, os.getpriority(os.PRIO_PROCESS, 0) + suite.nice)
        niceness.keep(process.pid)
        return process

    def _say(self, line: str) -> None:
        seconds = round(time.monotonic() - self._begun)
        print(f"{seconds // 60:3}:{seconds % 60:02}  {line}", flush=True)

    def _stop(self) -> None:
        """Interrupt the running suites as Ctrl-C does, so that stacks are stopped, and wait."""
        with self._lock:
            running = list(self._running.values())
            for suite in running:
                with suppress(ProcessLookupError):  # it has just ended
                    os.kill(suite.pid, signal.SIGINT)
        for suite in running:
            if not suite.has_ended.wait(_PATIENCE_S):
                with self._lock, suppress(ProcessLookupError):
                    if not suite.has_ended.is_set():
                        os.kill(suite.pid, signal.SIGKILL)


def _environment(folder: Path) -> dict[str, str]:
    """Return the environment of a suite. Its hundreds of Python processes keep compiled files, which many images switch off."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {
        **kept,
        "PYTEST_DEBUG_TEMPROOT": str(folder),
    }  # despite its name, pytest's setting for where it puts temporary folders


def read(suite: Suite, seconds: float, code: int) -> Outcome:
    """Read the result of a suite: its report, or the end of its output if it died before it wrote one."""
    file = LOGS / f"{suite.name}.xml"
    outcome = Outcome(suite=suite, seconds=seconds, code=code)
    if file.exists():
        found = pytest_report.read(file)
        outcome = replace(outcome, passed=found.passed, skipped=found.skipped, failed=found.failed, times=found.times)
    if code and not outcome.failed:
        outcome = replace(outcome, failed=[(suite.name, f"ended with exit code {code}; see {_shown(suite)}")])
    return outcome


def with_leaks(outcome: Outcome) -> Outcome:
    """Return the outcome as failed if a secret is in what the suite has printed, or in its report. Each suite searches everything else itself.

    What they tell of failed tests is not searched: see `suite_leaks`.
    """
    log, report = (LOGS / f"{outcome.suite.name}.{ending}" for ending in ("log", "xml"))
    has_failed = report.exists() and bool(outcome.failed)
    found = {
        log: log.exists() and suite_leaks.in_log(Scan(), log.read_bytes(), has_failed=has_failed),
        report: report.exists() and suite_leaks.in_report(Scan(), report.read_bytes()),
    }
    leaks = [
        (outcome.suite.name, f"a secret is in {file.relative_to(PROJECT)}") for file, leaks in found.items() if leaks
    ]
    return replace(outcome, failed=[*outcome.failed, *leaks], code=outcome.code or (1 if leaks else 0))


def _shown(suite: Suite) -> Path:
    return (LOGS / f"{suite.name}.log").relative_to(PROJECT)


def _progress(name: str) -> str:
    """Return the progress of a suite, from the letters that pytest has printed for its tests."""
    printed = re.findall(rb"^([.FEsxX]+)(?: +\[ *\d+%\])?$", (LOGS / f"{name}.log").read_bytes(), re.MULTILINE)
    done = b"".join(printed)
    failed = sum(done.count(letter) for letter in (b"F", b"E"))
    return f"{len(done)} tests done" + (f", {failed} failed" if failed else "")


def report(outcomes: Sequence[Outcome]) -> int:
    """Print what took longest and what failed; return the exit code."""
    times = sorted((entry for outcome in outcomes for entry in outcome.times), reverse=True)[:SLOWEST]
    print(f"\nThe {len(times)} slowest tests:")
    for seconds, name in times:
        print(f"  {seconds:6.1f} s  {name}")
    for outcome in outcomes:
        if outcome.failed:
            print(f"\n{outcome.suite.name} failed; the end of {_shown(outcome.suite)}:")
            lines = (LOGS / f"{outcome.suite.name}.log").read_text(errors="replace").splitlines()
            print("\n".join(f"    {line[:300]}" for line in lines[-_TAIL:]))
    failed = [entry for outcome in outcomes for entry in outcome.failed]
    if failed:
        print("\nFailed, in all suites:")
        for name, problem in failed:
            print(f"  {name}\n      {problem}")
    passed, skipped = sum(outcome.passed for outcome in outcomes), sum(outcome.skipped for outcome in outcomes)
    print(f"\n{passed} passed, {len(failed)} failed, {skipped} skipped")
    return 1 if failed or any(outcome.code for outcome in outcomes) else 0


def main() -> int:
    """Run the suites and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    asked = parser.parse_args()
    LOGS.mkdir(parents=True, exist_ok=True)
    lanes = [[suite for suite in lane if not asked.names or suite.name in asked.names] for lane in LANES]
    begun = time.monotonic()
    with suite_folder.temporary() as folder:
        outcomes = Runner(folder).run([lane for lane in lanes if lane])
    code = report(outcomes)
    missing = sum(map(len, lanes)) - len(outcomes)
    if missing:
        print(f"stopped: {missing} suites did not run")
    processor_s = sum(outcome.processor_s for outcome in outcomes)
    print(
        f"in {(time.monotonic() - begun) / 60:.1f} min, {processor_s / 60:.1f} min of processor time, on {os.cpu_count()} processors"
    )
    return code or (1 if missing else 0)


if __name__ == "__main__":
    sys.exit(main())
