"""Find secrets in what a suite has printed and in its report, without what these tell of failed tests.

A failed test shows more, for those who mend it: a traceback has the values of its variables, and an address among them its password. That
is the report of one failure, and no second one. What passed tests and servers have printed is searched all the same.
"""

import re
import xml.etree.ElementTree as ET

from secret_scan import Scan

_HEADER = re.compile(
    rb"^(?:=+ (?P<title>ERRORS|FAILURES|PASSES|warnings summary.*?|slowest .*?|short test summary info|Hypothesis"
    rb"|[^=]*\b(?:passed|failed|errors?|skipped)\b[^=]*) =+|\d+ (?:passed|failed|errors?|skipped)\b.* in [\d.]+s.*)\r?$"
)
_OF_FAILURES = (b"ERRORS", b"FAILURES")
_SUMMARY = b"short test summary info"
_ENTRY = re.compile(rb"(?:(?P<failed>FAILED|ERROR)|PASSED|SKIPPED|XFAIL|XPASS) ")
"""The first line of an entry of the summary. With CI set, pytest shows all lines of an entry's message, not only its first."""


def in_log(scan: Scan, text: bytes, *, has_failed: bool) -> bool:
    """Return whether a secret is in the output of a suite. The sections of failed tests are left out only if the report knows of one."""
    return scan.finds(_without_failures(text) if has_failed else text)


def in_report(scan: Scan, text: bytes) -> bool:
    """Return whether a secret is in the report of a suite."""
    try:
        root = ET.fromstring(text)
    except ET.ParseError:
        return scan.finds(text)
    for case in root.iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            for part in list(case):
                case.remove(part)
    return scan.finds(ET.tostring(root))


def _without_failures(text: bytes) -> bytes:
    kept = []
    title: bytes | None = None
    of_failed = False
    for line in text.split(b"\n"):
        if header := _HEADER.match(line):
            title, of_failed = header["title"], False
        if title == _SUMMARY and (entry := _ENTRY.match(line)):
            of_failed = entry["failed"] is not None
        if title not in _OF_FAILURES and not of_failed:
            kept.append(line)
    return b"\n".join(kept)
