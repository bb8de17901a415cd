"""The ledger in memory behaves as the real one does: for every simulated schedule both return the same rows and end with the same content."""

import ast
from dataclasses import replace
from importlib.resources import files

import pytest

from faults import actions, records
from faults.checker import read
from faults.drawn_schedules import OUTSIDE, STATEFUL, schedule, without_restores
from faults.memory import found
from faults.memory.mirrored import MirroredDatabase
from faults.memory.registry import VERBS
from faults.operations import ABatch, Arrive, Correct, Decide, Decision, Go, PassTime, SkipOffsets, SomeRejects, Start
from faults.schedules import Beginning, Schedule
from faults.simulation import world
from faults.simulation.simulating import simulate
from faults.simulation.tally import Tally
from given_ledger.ledgers import PIPELINE, claim, execute, plan, start_streams
from given_topics.topics import at
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import NamedRange, NewRecords, Ranges
from tideline.ledger import abandoning, cleanup

NEVER_BY_THE_FLOW = {
    "queries.py",
    "metrics.py",
    "invariants.py",
    "migrate.py",
    "rights.py",
    "roles.py",
    "versions.py",
    "letters.py",
    "published_rows.py",
    "schemas.py",
    "fields.py",
}
"""Verbs that only people or executors use, verbs that precede every flow, and verbs for a topic that no pipeline of the simulation has."""


@pytest.fixture
def output(ledger):
    execute(ledger, records.TARGET)


def played(monkeypatch, ledger, one):
    """Play a schedule over both ledgers; return the database in memory."""
    execute(ledger, "TRUNCATE ads.output; ALTER TABLE ads.output DROP CONSTRAINT IF EXISTS output_id_key")
    if one.beginning.unique:
        execute(ledger, "ALTER TABLE ads.output ADD UNIQUE (id)")
    made = []

    def database(on_step):
        made.append(MirroredDatabase(ledger, on_step))
        return made[-1]

    monkeypatch.setattr(world, "MemoryDatabase", database)
    problems = simulate(one, Tally())
    assert not problems, "\n".join(problem.text for problem in problems)
    [mirrored] = made
    mirrored.check()
    return mirrored


def test_whatever_is_played_both_ledgers_say_the_same(monkeypatch, ledger, output, share, first_seed):
    for seed in range(first_seed, first_seed + share.mirrored // 2):
        try:
            played(monkeypatch, ledger, without_restores(schedule(seed)))
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


def test_whatever_is_played_with_an_outside_sink_both_ledgers_say_the_same(
    monkeypatch, ledger, output, share, first_seed
):
    first = OUTSIDE + first_seed
    for seed in range(first, first + share.mirrored // 2):
        try:
            played(monkeypatch, ledger, without_restores(schedule(seed)))
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


def test_whatever_is_folded_and_rewound_both_ledgers_say_the_same(monkeypatch, ledger, output, share, first_seed):
    first = STATEFUL + first_seed
    for seed in range(first, first + share.mirrored // 2):
        try:
            played(monkeypatch, ledger, without_restores(schedule(seed)))
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


def replaced(partition, start, end):
    return Start(Ranges(ranges=(NamedRange("ads", partition, OffsetRange(start, end)),), replace=True))


REPERTOIRE = (
    Start(NewRecords(until=at(15))),
    SkipOffsets(0, 20, 6),
    Start(NewRecords()),
    replaced(0, 4, 9),  # a part
    replaced(0, 0, 12),  # more than that part
    replaced(0, 20, 24),  # into the hole
    Start(ABatch(0, replace=True)),
    Start(SomeRejects(None)),  # all of them fail again
    Correct(),
    Start(SomeRejects(1)),
    Start(SomeRejects(None)),
    Arrive(1, 3),
    Start(NewRecords()),
    Decide(Decision.ABANDON, 0),
    Decide(Decision.UPKEEP, 0),
)
"""Overlapping in time where `Go` lets each of them finish, and otherwise with replays that overtake a re-drive."""


@pytest.mark.parametrize("steps", [1_000, 40, 25])
@pytest.mark.parametrize("delivery", ["exactly_once", "latest_wins"])
def test_replays_backfills_and_re_drives_over_each_other_are_the_same_in_both(
    monkeypatch, ledger, output, delivery, steps
):
    beginning = Beginning(
        ends=(30, 9), incarnation=2, delivery=delivery, gaps="allowed", start="earliest", batch_records=8, run_batches=9
    )
    operations = [one for number, operation in enumerate(REPERTOIRE) for one in (operation, Go(number, steps))]
    operations += [PassTime(601), Decide(Decision.UPKEEP, 0), Go(0, 60)]
    mirrored = played(monkeypatch, ledger, Schedule(beginning=beginning, operations=tuple(operations)))
    recorded = {event.action for event in mirrored.events.values()}
    if steps == 1_000:
        assert {"supersede", "supersede partly", "skip", "move head", "publish"} <= recorded
        assert {batch.kind for batch in mirrored.batches.values()} == {"live", "backfill", "replay", "redrive"}


def test_upkeep_takes_claims_for_dead_and_prunes_events_in_both(mirrored, session):
    (stream,) = start_streams(session, 1)
    claim(session, plan(session, {stream: (0, 10)}))
    mirrored.pass_time(601)
    assert len(cleanup.expire_claims(session, PIPELINE)) == 1
    with session.transaction():
        abandoning.abandon(session, 1)
    assert cleanup.prune_events(session, PIPELINE, 1) == []
    mirrored.pass_time(86_401)
    assert cleanup.prune_events(session, PIPELINE, 1) == ["impressions: 5 events older than 1 days deleted"]
    mirrored.check()


def test_the_checker_finds_in_memory_what_it_reads_of_the_real_one(monkeypatch, ledger, ledger_url, output, first_seed):
    for seed in range(first_seed, first_seed + 3):
        mirrored = played(monkeypatch, ledger, without_restores(schedule(seed)))
        mine = found(mirrored, actions.PIPELINE, world.TABLE)
        with read(ledger_url, actions.PIPELINE, world.TABLE, records.OUTPUT) as theirs:
            for name in ("streams", "ranges", "coverage", "attempts", "outbox", "strangers"):
                assert sorted(getattr(mine, name), key=repr) == sorted(getattr(theirs, name), key=repr)
            assert undated(mine.batches) == undated(theirs.batches)
            assert len(mine.events) == len(theirs.events)
            for stream in theirs.streams:
                assert sorted(mine.rows(stream)) == sorted(theirs.rows(stream))
                assert list(mine.rejects(stream)) == list(theirs.rejects(stream))


def undated(batches):
    """Return batches without the moments at which they were planned: the two ledgers have different clocks."""
    return sorted((replace(batch, planned_at=at(0)) for batch in batches), key=repr)


def test_every_verb_that_the_flow_names_is_there_and_no_other():
    packages = (
        "tideline.flow",
        "tideline.ledger",
        "tideline.spark_jobs",
        "tideline.spark_jobs.readers",
        "tideline.records",
        "tideline.sinks",
        "tideline.sinks.postgres",
    )
    named = {verb for package in packages for verb in verbs_of(package)}
    assert set(VERBS) == named | {
        "set_actor",
        "view_batch_attempts",
    }  # of each session, and of an attempt at its time limit


def verbs_of(package):
    """Return the names of the ledger's verbs that the modules of a package use."""
    for file in files(package).iterdir():
        if file.name.endswith(".py") and file.name not in NEVER_BY_THE_FLOW:
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Attribute)
                    and node.func.attr in {"rows", "row", "run"}
                ):
                    yield from (asked.value for asked in node.args[:1] if isinstance(asked, ast.Constant))
