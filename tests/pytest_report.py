"""Read the report of a run of pytest (its JUnit XML): how many tests passed, which failed, and how long each took."""

import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a report says."""

    passed: int
    skipped: int
    failed: list[tuple[str, str]]
    """Each failed test, with the first line of the reason. One that fails, and whose fixture cannot be undone either, is there twice."""
    times: list[tuple[float, str]]
    """The seconds of each test."""


def read(file: Path) -> Report:
    """Read a report."""
    cases = list(ET.parse(file).iter("testcase"))
    failed = [(_name(case), problem) for case in cases if (problem := _problem(case)) is not None]
    skipped = {_name(case) for case in cases if case.find("skipped") is not None}
    return Report(
        passed=len({_name(case) for case in cases} - {name for name, _ in failed} - skipped),
        skipped=len(skipped),
        failed=failed,
        times=[(float(case.get("time", 0)), _name(case)) for case in cases],
    )


def _name(case: ET.Element) -> str:
    return f"{case.get('classname', '').replace('.', '/')}::{case.get('name')}"


def _problem(case: ET.Element) -> str | None:
    found = case.find("failure") if case.find("failure") is not None else case.find("error")
    return None if found is None else (found.get("message") or "").strip().partition("\n")[0][:200]
