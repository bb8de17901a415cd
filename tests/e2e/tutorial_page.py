"""Run the commands of a tutorial as they stand on the page, in order, and compare what they print with what it shows."""

import re
import subprocess
from pathlib import Path

from system import System
from tideline.settings import PROJECT

Compared = list[tuple[str, str]]
"""Each output that a page shows, with what the commands before it have printed."""


def play(system: System, folder: Path, *, page: str, pipeline: str) -> Compared:
    """Run the page in an empty folder. Its pipeline is declared among those of the stack."""
    text = (PROJECT / "docs" / page).read_text(encoding="utf-8")
    (folder / ".local").symlink_to(PROJECT / ".local")
    (folder / "include").mkdir()
    (folder / "include" / "pipelines").symlink_to(system.folder / "pipelines")
    compared, printed = [], ""
    for kind, block in re.findall(r"^```(sh|text)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        if kind == "sh":
            printed = _run(system, folder, block, pipeline)
        else:
            compared.append((block, printed))
    return compared


def _run(system: System, folder: Path, commands: str, pipeline: str) -> str:
    """Run one block in a shell, with the differences between this stack and that of `make up`."""
    # The stack of the tests is up already, and its Airflow looks for new folders only on request.
    commands = commands.replace("make up\n", "")
    if "tideline_stack.load" in commands:
        _parse(system)
    # Where a person waits for a run, the test waits.
    if "tideline batches" in commands:
        _wait(system, pipeline)
    finished = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=folder,
        env={**system.environment, "PAGER": "cat"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert finished.returncode == 0, (commands, finished.stdout, finished.stderr)
    return finished.stdout.replace(str(system.folder / "pipelines"), "include/pipelines")


def _parse(system: System) -> None:
    token = system.airflow.call("GET", "dags/impressions")["file_token"]
    system.airflow.call("PUT", f"parseDagFile/{token}")


def _wait(system: System, pipeline: str) -> None:
    def ended() -> bool:
        runs = system.airflow.call("GET", f"dags/{pipeline}/dagRuns?limit=100")["dag_runs"]
        return all(run["state"] in {"success", "failed"} for run in runs)

    system.wait(ended, f"the runs of {pipeline} to end")


def not_printed(compared: Compared) -> list[tuple[str, str]]:
    """Return each line that a page shows and that was not printed, with what was; three dots at its end stand for the rest of the line."""
    return [(line, printed) for shown, printed in compared for line in shown.splitlines() if not _is_in(line, printed)]


def _is_in(line: str, printed: str) -> bool:
    lines = [_plain(other) for other in printed.splitlines()]
    if line.endswith("..."):
        return any(other.startswith(_plain(line.removesuffix("..."))) for other in lines)
    return _plain(line) in lines


def _plain(line: str) -> str:
    """Return a line without what differs from run to run: moments, durations, numbers of batches, the width of columns."""
    for pattern, same in (
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ(?=  |$)", "TIME"),
        (r"\d+(?=\s+TIME)|^\d+(?=\s+(live|redrive|backfill))|\d+(?= s$)", "N"),
        (r"(?<=batches )\d+, \d+", "N, N"),
        (r"-{2,}", "--"),
        (r"\s+", " "),
    ):
        line = re.sub(pattern, same, line)
    return line.strip()
