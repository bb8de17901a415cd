"""What holds for each suite: the same examples of properties on each commit; at its end, a search for the secrets that it has used,
in all files that it wrote, in command lines, in captured output."""

import gc
from collections.abc import Iterator

import pytest
from hypothesis import settings

from secret_scan import ProcessWatch, Scan

SCAN = Scan()
_shown: list[str] = []

# Hypothesis does so by itself only where a variable says that this is CI, and a person's run would have other examples than CI's.
settings.register_profile("same examples", derandomize=True, deadline=None)
# A night plays four times as many, where a test does not say how many.
settings.register_profile("new examples", derandomize=False, deadline=None, max_examples=400)
settings.load_profile("same examples")


@pytest.fixture(scope="session", autouse=True)
def no_secret_is_left_behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fail if one is found. This is the first fixture, so it ends after all servers have stopped."""
    with ProcessWatch(SCAN) as processes:
        yield
    assert processes.has_looked, "the watch of command lines has died"
    found = [*processes.found, *_shown, *SCAN.files(tmp_path_factory.getbasetemp())]
    assert not found, "secrets were found:\n" + "\n".join(found)


def pytest_collection_finish() -> None:
    """Take the modules and tests out of garbage collection: each full collection would visit their objects, a million, again."""
    gc.collect()
    gc.freeze()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Search what a test has printed. The report of a failed test shows more, for those who mend it."""
    if report.passed and SCAN.finds("".join(text for _, text in report.sections).encode(errors="surrogateescape")):
        _shown.append(f"output of {report.nodeid}")
