"""Run real write tasks on real servers while all their parts are killed; see `job_faults` for the kinds and moments."""

import pytest

from faults.jobs.figures import Figures
from faults.jobs.order_outputs import OUTSIDE, Sink
from faults.jobs.schedule import Schedule
from faults.jobs.write_progress import COMMITS, LANDED
from faults.share import COMMIT, SOAK


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        config = metafunc.config
        first, share = config.getoption("--first-seed"), SOAK if config.getoption("--soak") else COMMIT
        metafunc.parametrize("seed", range(first, first + share.jobs))


@pytest.fixture(scope="module")
def total(tally):
    """Collect the figures of all schedules."""
    figures = Figures()
    yield figures
    tally("jobs", **figures.as_json())


@pytest.fixture
def schedule(crashing, monkeypatch, tmp_path, seed):
    """Return the schedule of the seed, on the servers of these tests."""
    for name, value in crashing.variables().items():
        monkeypatch.setenv(name, value)
    return Schedule(seed, crashing, tmp_path / "logs")


def test_killed_jobs_and_servers_lose_nothing_double_nothing_and_jam_nothing(schedule, crashing, tally, total):
    try:
        figures = schedule.play()
    except BaseException as error:
        error.add_note(f"{schedule}\nlogs of its jobs: {schedule.folder}\nlogs of the servers: {crashing.folder}")
        error.add_note(
            f"again: pytest tests/faults/jobs/test_jobs.py -k '[{schedule.seed}]' --first-seed {schedule.seed}"
        )
        raise
    tally("job", seed=schedule.seed, **figures.as_json())
    total.add(figures)


def test_what_is_folded_was_rewound_and_loaded_again(total):
    """Check the count, so that schedules that never go back are noticed; a few have loaded everything only at their end."""
    assert total.rewound >= total.sinks[Sink.FOLDED] // 2


def test_commits_in_flight_have_landed_been_settled_by_another_attempt_been_refused_and_never_been_made(total):
    """Check the counts, so that schedules that hit no commit are noticed."""
    outside = sum(total.sinks[sink] for sink in OUTSIDE)
    assert total.commits[LANDED] >= outside
    floor = outside // 10  # several times as many are usual
    assert [what for what in COMMITS if total.commits[what] < floor] == []
