"""Play runs, operators, Kafka and crashes in any order, each schedule from one seed.

Whatever happens, every record is accounted for exactly once, and nothing jams. A schedule that fails is printed with
the command that plays it again: `python -m faults.simulation --seed N` (see `__main__.py`).
"""

import time

import pytest

from faults.actions import AcceptPartitions, Rewind, Task
from faults.drawn_schedules import OUTSIDE, STATEFUL
from faults.operations import GoBack, Heal, Hold, Land, Lose, Operation, Strike
from faults.simulation.seeds import play, play_side_by_side
from faults.simulation.tally import Tally
from tideline.domain.states import BatchKind
from tideline.ledger import attempts, heads, publishing

FLOORS = {
    "commits": 100_000,
    "crashes": 750,
    "passed_over": 4_000,
    "records": 22_500,
    "refused": 90,
    "replays_unchanged": 450,
    "resolved": 15,
    "unknown_commits": 250,
}
"""Least counts for any thousand schedules, at most two thirds of the usual ones. They ensure that a simulation that
does nothing is noticed."""
OFTEN = 1
NEVER_DRAWN = {Heal}
ONLY_OUTSIDE = {Hold, Land, Lose}
"""Drawn in schedules with an outside sink only."""
ONLY_STATEFUL = {GoBack}
NEVER_WITHOUT_STATE = {AcceptPartitions, Rewind}
"""Commands that end well for a pipeline with a state only. Partitions are added in one of a hundred of its schedules."""
FOLDED_FLOORS = {"kept": 8_000, "rewound": 2_500, "pruned": 500, "expired": 3_000}
"""Least numbers of batches that are folded, rewound and pruned, and of rows of timers, for any thousand schedules with a state."""
REWIND_FLOORS = {"Rewind ok": 700, "Rewind killed": 8, "Rewind FatalError": 1_500, "Rewind RetryableError": 50}
"""Least numbers of rewinds by their end. A rewind is refused with a FatalError."""
OUTSIDE_FLOORS = {"sent": 7_500, "landed": 6_000, "refused": 1_000, "lost": 200}
"""Least numbers of commits to an outside sink, for any thousand of those schedules."""


def test_any_simulated_schedule_accounts_for_every_record_once_and_jams_nothing(
    share, first_seed, tally, request, capsys
):
    total, begun, count = Tally(), time.monotonic(), share.simulation * 3 // 4
    side_by_side = request.getfixturevalue("side_by_side")
    for part, failure in play_side_by_side(first_seed, count, side_by_side):
        total.add(part)
        assert failure is None, str(failure)
        if request.config.getoption("--soak") and total.schedules % 10_000 == 0:
            with capsys.disabled():
                print(
                    f"{total.schedules} schedules, {total.crashes} faults, {time.monotonic() - begun:.0f} s", flush=True
                )
    tally("simulation", first_seed=first_seed, seconds=time.monotonic() - begun, **total.numbers())
    assert total.schedules == count
    assert seldom(total) == []


def played(first_seed, count, side_by_side):
    """Play schedules to their ends, and return what has happened in them."""
    total = Tally()
    for part, failure in play_side_by_side(first_seed, count, side_by_side):
        total.add(part)
        assert failure is None, str(failure)
    return total


def test_any_schedule_with_an_outside_sink_makes_each_record_visible_once(share, first_seed, tally, request):
    """Commits in flight land before or after a fence, an abandon, a skip, a replay, a settlement, or never."""
    begun, count = time.monotonic(), share.simulation // 4
    total = played(OUTSIDE + first_seed, count, request.getfixturevalue("side_by_side"))
    tally("outside sinks", first_seed=first_seed, seconds=time.monotonic() - begun, **total.numbers())
    assert total.schedules == count
    thousands = count / 1_000
    assert {
        name: total.outside[name] for name, least in OUTSIDE_FLOORS.items() if total.outside[name] < least * thousands
    } == {}
    assert total.settled >= 150 * thousands, "batches settled by another attempt than the one that has committed them"
    assert not [kind for kind in ONLY_OUTSIDE if total.operations[kind.__name__] < thousands]


def test_any_schedule_with_a_state_folds_every_record_once_and_in_order(share, first_seed, tally, request):
    """Rewinds at any time, commands that are refused, crashes at any statement; compared with an uninterrupted fold."""
    begun, count = time.monotonic(), share.simulation // 4
    total = played(STATEFUL + first_seed, count, request.getfixturevalue("side_by_side"))
    tally("states", first_seed=first_seed, seconds=time.monotonic() - begun, **total.numbers())
    assert total.schedules == count
    thousands = count / 1_000
    floors = ((total.folded, FOLDED_FLOORS), (total.tasks, REWIND_FLOORS))
    assert {
        name: found[name] for found, least in floors for name in least if found[name] < least[name] * thousands
    } == {}


def seldom(total):
    """Return what happened less often than required, so that a missing kind of event is noticed."""
    thousands = total.schedules / 1_000
    too_few = [
        f"{name}: {getattr(total, name)}" for name, floor in FLOORS.items() if getattr(total, name) < floor * thousands
    ]
    ended_well = [f"{task.__name__} ok" for task in Task.__args__ if task not in NEVER_WITHOUT_STATE]
    for counter, names in (
        (
            total.operations,
            [kind.__name__ for kind in Operation.__args__ if kind not in NEVER_DRAWN | ONLY_OUTSIDE | ONLY_STATEFUL],
        ),
        (total.strikes, Strike),
        (total.published, BatchKind),
        (total.tasks, [*ended_well, "Write SupersededError", "Plan killed", "Write killed", "Advance killed"]),
    ):
        too_few += [f"{name}: {counter[name]}" for name in names if counter[name] < OFTEN * thousands]
    return too_few


def published_without_asking_who_holds_the_batch(monkeypatch):
    monkeypatch.setattr(publishing, "holder", lambda *_: None)


def an_unknown_commit_is_taken_for_one_that_took_effect(monkeypatch):
    monkeypatch.setattr(publishing, "was_published", lambda ledger, _: ledger.reconnect() is None)


def a_silent_writer_is_never_taken_over(monkeypatch):
    monkeypatch.setattr(attempts, "_may_take_over", lambda *_: False)


def batches_advance_one_at_a_time(monkeypatch):
    def walk(ledger, pipeline):
        waiting = [row["batch_id"] for row in ledger.rows("list_published_batches", pipeline=pipeline)]
        ledger.rows("pass_coverage", pipeline=pipeline)
        return [row["batch_id"] for row in ledger.rows("advance_batches", batch_ids=waiting[:1])]

    monkeypatch.setattr(heads, "walk", walk)


def replaced_batches_keep_their_state(monkeypatch):
    monkeypatch.setattr(publishing, "_supersede", lambda *_: None)


@pytest.mark.parametrize(
    ("defect", "most_seeds", "most_operations"),
    [
        (published_without_asking_who_holds_the_batch, 50, 8),
        (an_unknown_commit_is_taken_for_one_that_took_effect, 200, 8),
        (a_silent_writer_is_never_taken_over, 50, 4),
        (batches_advance_one_at_a_time, 50, 8),
        (replaced_batches_keep_their_state, 50, 6),
    ],
)
def test_a_planted_defect_is_found_soon_and_shown_in_a_few_operations(monkeypatch, defect, most_seeds, most_operations):
    defect(monkeypatch)
    _, failure = play(0, most_seeds)
    assert failure is not None
    assert len(failure.small.operations) <= most_operations, str(failure)


def test_a_seed_gives_the_same_play_every_time():
    assert play(0, 20)[0] == play(0, 20)[0]
