"""Run the tests that meet other programs with the oldest and the newest versions of them, and write the table of docs/deploy.md.

make compatibility                   all sets of versions.toml: about a quarter of an hour and 3 GB for each
make compatibility ARGS='oldest'     one of them
"""

import argparse
import os
import platform
import re
import shlex
import subprocess
import sys
import tomllib
from datetime import UTC, datetime
from pathlib import Path

import pytest_report
from compatibility.copies import Copy, Versions, made
from tideline.settings import PROJECT

SETS = {
    name: Versions(name=name, **given)
    for name, given in tomllib.loads(Path(__file__).with_name("versions.toml").read_text()).items()
}
TESTS = ("tests/e2e", "tests/integration/sinks/test_sink_contract.py")
# Spark closes each of its sockets only since 4.2. Before, the garbage collector does, and Python warns of it.
_SOCKETS_MAY_STAY_OPEN = ("-W", "default::pytest.PytestUnraisableExceptionWarning")
PAGE = PROJECT / "docs" / "deploy.md"
_TABLE = re.compile(r"(?<=<!-- written by make compatibility -->\n)(?:\|.*\n)+")
_HEAD = "| versions | Airflow | Spark | Postgres | Kafka | passed | failed | skipped | day |\n|---|---|---|---|---|---|---|---|---|\n"


def main() -> int:
    """Try the sets; return the exit code."""
    parser = argparse.ArgumentParser(prog="make compatibility", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SETS)}; default: all")
    names = parser.parse_args().names or list(SETS)
    if unknown := [name for name in names if name not in SETS]:
        parser.error(f"versions.toml has no set {unknown[0]}: it has {', '.join(SETS)}")
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        parser.error("the servers of versions.toml are programs for Linux on x86-64")
    has_failed = False
    for name in names:
        copy = made(SETS[name])
        found = _tested(copy)
        # At once: the result stays even if a later set fails.
        PAGE.write_text(with_row(PAGE.read_text(), _row(SETS[name], copy, found)))
        has_failed |= bool(found.failed)
    return int(has_failed)


def _tested(copy: Copy) -> pytest_report.Report:
    """Run the tests in a copy. Print the failed ones, and how to run them again; return the report."""
    file = copy.folder / ".local" / "compatibility.xml"
    file.unlink(missing_ok=True)
    command = [str(copy.python), "-m", "pytest", "-q", f"--junitxml={file}", *_SOCKETS_MAY_STAY_OPEN, *TESTS]
    code = subprocess.run(command, cwd=copy.folder, env={**os.environ, **copy.variables}, check=False).returncode
    if not file.exists():
        sys.exit(f"the tests in {copy.folder} ended with exit code {code} and without a report")
    found = pytest_report.read(file)
    if found.failed:
        print(f"\nTo run one of them again: {again(copy, found.failed[0][0])}\n", flush=True)
    return found


def again(copy: Copy, test: str) -> str:
    """Return the command of a shell that runs a failed test again in its copy."""
    file, _, function = test.partition("::")
    variable = " ".join(f"{name}={shlex.quote(value)}" for name, value in copy.variables.items())
    return f"cd {shlex.quote(str(copy.folder))} && {variable} .local/env/bin/python -m pytest {shlex.quote(f'{file}.py::{function}')}"


def _row(versions: Versions, copy: Copy, report: pytest_report.Report) -> str:
    cells = (
        versions.name, copy.installed("apache-airflow"), copy.installed("pyspark"), versions.postgres.removesuffix(".0"),
        versions.kafka, report.passed, len(report.failed), report.skipped, f"{datetime.now(UTC):%Y-%m-%d}",
    )  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |\n"


def with_row(page: str, row: str) -> str:
    """Return the page with the row of a set replaced, or added."""
    [table] = _TABLE.findall(page)
    name = row.split("|")[1].strip()
    rows = [line for line in table.splitlines(keepends=True)[2:] if line.split("|")[1].strip() != name]
    order = list(SETS)
    known = sorted([*rows, row], key=lambda line: order.index(line.split("|")[1].strip()))
    return _TABLE.sub(lambda _: _HEAD + "".join(known), page)


if __name__ == "__main__":
    sys.exit(main())
