"""Run the tests that meet other programs with the oldest and the newest versions of them, and write the table of docs/deploy.md.

make compatibility                   all sets of versions.toml: about a quarter of an hour and 3 GB for each
make compatibility ARGS='oldest'     one of them
"""

import argparse
import re
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ET
from datetime import UTC, datetime
from pathlib import Path

from compatibility.copies import Copy, Versions, environment, made
from tideline.settings import PROJECT

SETS = {
    name: Versions(name=name, **given)
    for name, given in tomllib.loads(Path(__file__).with_name("versions.toml").read_text()).items()
}
TESTS = ("tests/e2e", "tests/integration/sinks/test_sink_contract.py")
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
    has_failed = False
    for name in names:
        copy = made(SETS[name])
        counts = _tested(copy)
        # At once: the result stays even if a later set fails.
        PAGE.write_text(with_row(PAGE.read_text(), _row(SETS[name], copy, counts)))
        has_failed |= bool(counts["failed"])
    return int(has_failed)


def _tested(copy: Copy) -> dict[str, int]:
    """Run the tests in a copy, and print the failed ones; return how many there are of each kind."""
    report = copy.folder / ".local" / "compatibility.xml"
    report.unlink(missing_ok=True)
    command = [str(copy.python), "-m", "pytest", "-q", f"--junitxml={report}", *TESTS]
    code = subprocess.run(command, cwd=copy.folder, env=environment(copy), check=False).returncode
    if not report.exists():
        sys.exit(f"the tests in {copy.folder} ended with exit code {code} and without a report")
    return counted(report.read_text())


def counted(report: str) -> dict[str, int]:
    """Return the numbers of tests in a report of pytest: passed, failed, skipped."""
    cases = list(ET.fromstring(report).iter("testcase"))
    failed = sum(any(case.find(kind) is not None for kind in ("failure", "error")) for case in cases)
    skipped = sum(case.find("skipped") is not None for case in cases)
    return {"passed": len(cases) - failed - skipped, "failed": failed, "skipped": skipped}


def _row(versions: Versions, copy: Copy, counts: dict[str, int]) -> str:
    found = (
        versions.name, copy.installed("apache-airflow"), copy.installed("pyspark"), versions.postgres.removesuffix(".0"),
        versions.kafka, counts["passed"], counts["failed"], counts["skipped"], f"{datetime.now(UTC):%Y-%m-%d}",
    )  # fmt: skip
    return f"| {' | '.join(map(str, found))} |\n"


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
