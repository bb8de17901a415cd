"""Play schedules in which real processes are killed, frozen and cut off, each drawn from one seed.

Whatever happens, every record is accounted for exactly once, and nothing jams. A schedule that fails is printed with
the command that plays it again.
"""

import time

import pytest

from faults.operations import Strike
from faults.processes.process_pipelines import Output
from faults.processes.process_schedules import OUTPUTS, counts, play
from faults.simulation.tally import Tally
from tideline.domain.states import BatchKind

AT_ONCE = 10
"""Schedules in one work package of a worker."""


@pytest.fixture(scope="module")
def total(workers, share, first_seed, tally):
    """Play all schedules and return their common tally; fail with the first schedule that fails."""
    counted, begun = Tally(), time.monotonic()
    seeds = range(first_seed, first_seed + share.processes)
    parts = [workers.submit(play, seeds[at : at + AT_ONCE]) for at in range(0, len(seeds), AT_ONCE)]
    for part in parts:
        found, wrong = part.result()
        counted.add(found)
        if wrong:
            for other in parts:
                other.cancel()
            pytest.fail(wrong, pytrace=False)
    tally(
        "processes", first_seed=first_seed, seconds=time.monotonic() - begun, crashes=counted.crashes, **counts(counted)
    )
    return counted


def test_any_schedule_of_processes_accounts_for_every_record_once_and_jams_nothing(total, share):
    assert total.schedules == share.processes


def test_commits_with_an_unknown_outcome_are_resolved_right(total, share):
    """Each schedule has ended right, although these faults struck in them."""
    assert total.unknown_commits >= share.unknown_commits
    assert total.resolved >= share.unknown_commits // 20  # of a publish


def test_commits_to_a_lake_land_in_time_or_late_or_never(total):
    """Check that such commits occur: some land after their sender got no answer, some are refused, some are lost, and
    some batches are settled by another attempt than the one that has committed them."""
    lakes, found = total.schedules * OUTPUTS.count(Output.LAKE) // len(OUTPUTS) - 1, total.outside
    unusual = (found["landed late"], found["refused"], found["lost"], total.settled)
    assert found["landed"] >= lakes
    assert sum(unusual) >= lakes // 4
    assert min(unusual) >= total.schedules // 200


def test_replays_of_what_is_published_change_nothing_that_readers_see(total, share):
    assert total.replays_unchanged >= share.processes // 20  # a fifth of them end with one, where there is a batch


def test_all_that_can_happen_has_happened(total):
    """Check the counts, so that schedules that do nothing are noticed."""
    floor = total.schedules // 20  # several times as many are usual
    seldom = {strike: total.strikes[strike] for strike in Strike if total.strikes[strike] < floor}
    unpublished = {kind: total.published[kind] for kind in BatchKind if not total.published[kind]}
    assert (seldom, unpublished) == ({}, {})
    assert min(total.refused, total.operations["CrashServer"], total.tasks["Write killed"]) > 0
