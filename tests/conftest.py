"""At the end of each suite, a search for the secrets that it has used: in all files that it wrote, in command lines, in captured output."""

from collections.abc import Iterator

import pytest

from secret_scan import ProcessWatch, Scan

SCAN = Scan()
_shown: list[str] = []


@pytest.fixture(scope="session", autouse=True)
def no_secret_is_left_behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fail if one is found. This is the first fixture, so it ends after all servers have stopped."""
    with ProcessWatch(SCAN) as processes:
        yield
    assert processes.has_looked, "the watch of command lines has died"
    found = [*processes.found, *_shown, *SCAN.files(tmp_path_factory.getbasetemp())]
    assert not found, "secrets were found:\n" + "\n".join(found)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Search what a test has printed. The report of a failed test shows more, for those who mend it."""
    if report.passed and SCAN.finds("".join(text for _, text in report.sections).encode(errors="surrogateescape")):
        _shown.append(f"output of {report.nodeid}")
