"""The tutorial: its commands run as they stand on the page, in order, and print what the page shows."""

import re
import subprocess
from pathlib import Path

import pytest

from system import System
from tideline.settings import PROJECT

PAGE = (PROJECT / "docs" / "tutorial.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(sh|text)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
NAME = "shop_orders"


@pytest.fixture(scope="module")
def done(system, tmp_path_factory) -> list[tuple[str, str]]:
    """Run the page; return each output that it shows with what the commands before it print."""
    folder = tmp_path_factory.mktemp("tutorial")
    (folder / ".local").symlink_to(PROJECT / ".local")
    (folder / "include").mkdir()
    (folder / "include" / "pipelines").symlink_to(system.folder / "pipelines")
    compared, printed = [], ""
    for kind, block in BLOCKS:
        if kind == "sh":
            printed = run(system, folder, block)
        else:
            compared.append((block, printed))
    return compared


def run(system: System, folder: Path, commands: str) -> str:
    """Run one block in a shell, with the differences between this stack and that of `make up`."""
    # The stack of the tests is up already, and its Airflow looks for new folders only on request.
    commands = commands.replace("make up\n", "")
    if "tideline.local.load" in commands:
        parse(system)
    # Where a person waits for a run, the test waits.
    if "tideline batches" in commands:
        wait(system)
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


def parse(system: System) -> None:
    token = system.airflow.call("GET", "dags/impressions")["file_token"]
    system.airflow.call("PUT", f"parseDagFile/{token}")


def wait(system: System) -> None:
    def ended() -> bool:
        runs = system.airflow.call("GET", f"dags/{NAME}/dagRuns?limit=100")["dag_runs"]
        return all(run["state"] in {"success", "failed"} for run in runs)

    system.wait(ended, f"the runs of {NAME} to end")


def plain(line: str) -> str:
    """Return a line without what differs from run to run: moments, durations, numbers of batches, the width of columns."""
    for pattern, same in (
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ(?=  |$)", "TIME"),
        (r"\d+(?=\s+TIME)|^\d+(?=\s+(live|redrive))|\d+(?= s$)", "N"),
        (r"-{2,}", "--"),
        (r"\s+", " "),
    ):
        line = re.sub(pattern, same, line)
    return line.strip()


def is_shown(line: str, printed: str) -> bool:
    """Return whether a line of the page was printed; three dots at its end stand for the rest of the line."""
    lines = [plain(other) for other in printed.splitlines()]
    if line.endswith("..."):
        return any(other.startswith(plain(line.removesuffix("..."))) for other in lines)
    return plain(line) in lines


def test_every_command_of_the_page_succeeds_and_prints_what_it_shows(done):
    assert len(done) > 6
    for shown, printed in done:
        assert [line for line in shown.splitlines() if not is_shown(line, printed)] == [], printed


def test_in_the_end_each_record_is_in_the_table_once(system, done):
    rows = system.rows("SELECT order_id, kafka_partition, kafka_offset FROM shop.orders ORDER BY order_id")
    assert [row[0] for row in rows] == [1, 2, 3, 4, 5, 6]
    assert len({row[1:] for row in rows}) == 6
