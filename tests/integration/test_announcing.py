"""Each published batch is announced once as an asset event, whatever happens to the run that published it and to the tasks that announce."""

import random
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

import psycopg2
import pytest

from given_ledger.ledgers import PIPELINE, RUN, claim, execute, plan, publish, published, query, stage, start_streams
from tideline import flow
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import NamedRange
from tideline.domain.states import BatchKind
from tideline.errors import NeedsOperatorError
from tideline.ledger import reservations
from tideline.ledger.publications import Announcer, Loaded, PublishedBatch

FIRST, SECOND = (Announcer(dag_id="impressions", run_id=f"manual__{number}", task_id="announce") for number in (1, 2))


@dataclass
class Airflow:
    """The tasks that are running, and the events of those that have succeeded."""

    running: set[Announcer] = field(default_factory=set)
    events: list[tuple[int, UUID]] = field(default_factory=list)

    def may_succeed(self, announcer: Announcer) -> bool:
        return announcer in self.running

    def announced(self, since: datetime) -> set[UUID]:
        assert since.tzinfo is not None
        return {attempt for _, attempt in self.events}

    def succeed(self, publications: list[PublishedBatch]) -> list[int]:
        """End a task with success: record its events and return the batches."""
        self.events += [(publication.batch_id, publication.attempt) for publication in publications]
        return [publication.batch_id for publication in publications]

    def batches(self) -> list[int]:
        return [batch_id for batch_id, _ in self.events]


@pytest.fixture
def airflow():
    return Airflow()


@pytest.fixture
def batch_id(ledger):
    """Publish a batch."""
    (stream,) = start_streams(ledger, 1)
    return published(ledger, {stream: (0, 10)})


def announce(ledger, airflow, announcer=FIRST):
    return flow.announce(ledger, PIPELINE, announcer, airflow)


def numbers(publications):
    return [publication.batch_id for publication in publications]


def test_what_is_announced_says_what_became_of_each_range(ledger, airflow):
    one, two = start_streams(ledger, 2)
    first = plan(ledger, {one: (0, 10), two: (0, 5)})
    stage(ledger, attempt := claim(ledger, first), n_filtered=1)
    publish(ledger, attempt, written={one: 9, two: 4})
    second = published(ledger, {one: (10, 20)})
    found = announce(ledger, airflow)
    assert [(each.batch_id, each.kind) for each in found] == [(first, BatchKind.LIVE), (second, BatchKind.LIVE)]
    assert found[0].attempt == attempt.attempt
    counts = {"n_rejected": 0, "n_filtered": 1, "n_gap": 0}
    assert found[0].ranges == (
        Loaded(range=NamedRange("ads", 0, OffsetRange(0, 10)), n_read=10, n_written=9, **counts),
        Loaded(range=NamedRange("ads", 1, OffsetRange(0, 5)), n_read=5, n_written=4, **counts),
    )


def test_what_a_run_has_published_is_announced_although_the_run_fails(ledger, airflow):
    """It publishes two batches and fails on the third: the two are visible, so consumers of the asset must be notified."""
    (stream,) = start_streams(ledger, 1)
    done = [published(ledger, {stream: (0, 10)}), published(ledger, {stream: (10, 20)})]
    plan(ledger, {stream: (20, 30)})
    with pytest.raises(NeedsOperatorError, match="the run is not finished"):
        flow.advance(ledger, PIPELINE, RUN)
    assert airflow.succeed(announce(ledger, airflow)) == done


def test_batches_of_healthy_streams_are_announced_although_another_is_stopped(ledger, airflow):
    healthy, inconsistent = start_streams(ledger, 2)
    batch_id = published(ledger, {healthy: (0, 10)})
    with ledger.transaction():
        reservations.stop_stream(ledger, inconsistent, "the topic is gone")
    with pytest.raises(NeedsOperatorError, match="stopped"):
        flow.advance(ledger, PIPELINE, RUN)
    assert airflow.succeed(announce(ledger, airflow)) == [batch_id]


def test_the_next_task_announces_what_no_task_has(ledger, airflow, batch_id):
    """This includes replays, backfills, re-drives, and batches that have been replaced since."""
    (stream,) = query(ledger, "SELECT stream_id FROM tideline.stream")[0]
    replay = published(ledger, {stream: (0, 10)}, kind=BatchKind.REPLAY)
    assert query(ledger, "SELECT state::text FROM tideline.batch ORDER BY 1") == [("published",), ("superseded",)]
    assert airflow.succeed(announce(ledger, airflow, SECOND)) == [batch_id, replay]
    assert announce(ledger, airflow, FIRST) == []


def test_nothing_is_announced_twice(ledger, airflow, batch_id):
    airflow.succeed(announce(ledger, airflow))
    for announcer in (FIRST, SECOND):  # a cleared task, and another run
        assert announce(ledger, airflow, announcer) == []
    airflow.events.clear()  # Airflow deletes old events; a batch whose event was seen once stays announced
    assert announce(ledger, airflow) == []


def test_nothing_is_marked_as_announced_before_its_event_was_seen(ledger, airflow, batch_id):
    """Airflow stores the events with the success of the task: a task that dies before has announced nothing."""
    assert numbers(announce(ledger, airflow)) == [batch_id]
    assert query(ledger, "SELECT announced_at FROM tideline.outbox") == [(None,)]
    assert numbers(announce(ledger, airflow, SECOND)) == [batch_id], "the first one has died"
    assert numbers(announce(ledger, airflow, SECOND)) == [batch_id], "the next try of the second one"


def test_what_a_running_task_may_still_announce_is_left_to_it(ledger, airflow, batch_id):
    taken = announce(ledger, airflow)
    airflow.running.add(FIRST)
    assert announce(ledger, airflow, SECOND) == []
    airflow.running.remove(FIRST)
    airflow.succeed(taken)
    assert announce(ledger, airflow, SECOND) == []
    assert airflow.batches() == [batch_id]


def test_a_task_that_ends_while_another_one_asks_is_not_doubled(ledger, airflow, batch_id):
    """It ends between the two questions, whether it is running and which events there are, in either order of the questions."""
    taken = announce(ledger, airflow)
    airflow.running.add(FIRST)

    class Ending(Airflow):
        def may_succeed(self, announcer: Announcer) -> bool:
            was_running = airflow.may_succeed(announcer)
            self.end()
            return was_running

        def announced(self, since: datetime) -> set[UUID]:
            seen = airflow.announced(since)
            self.end()
            return seen

        def end(self) -> None:
            if FIRST in airflow.running:
                airflow.running.remove(FIRST)
                airflow.succeed(taken)

    assert announce(ledger, Ending(), SECOND) == []
    assert airflow.batches() == [batch_id]


def test_of_two_tasks_that_ask_at_once_one_takes_a_batch(ledger, airflow, batch_id):
    class Overtaken(Airflow):
        def announced(self, since: datetime) -> set[UUID]:
            airflow.succeed(announce(ledger, airflow, SECOND))
            return set()  # it asked just before

    assert announce(ledger, Overtaken(), FIRST) == []
    assert airflow.batches() == [batch_id]


def test_a_batch_of_a_restored_ledger_is_another_one_than_the_event_is_about(ledger, airflow, batch_id):
    """Batch ids are reused after a restore, but the attempts that publish are new ones."""
    airflow.events.append((batch_id, UUID(int=5)))
    assert numbers(announce(ledger, airflow)) == [batch_id]


def test_another_pipeline_announces_its_own(ledger, airflow, batch_id):
    assert flow.announce(ledger, "another", FIRST, airflow) == []


@pytest.mark.parametrize("seed", range(8))
def test_tasks_that_die_wait_and_overtake_each_other_announce_each_batch_once(ledger, airflow, seed):
    """Tasks ask, and then succeed, die, or take long; a task that was considered dead may be too late to be accepted."""
    choose = random.Random(seed)
    (stream,) = start_streams(ledger, 1)
    asked: dict[Announcer, list[PublishedBatch]] = {}
    done = []
    for number in range(40):
        match choose.randrange(3):
            case 0:
                done.append(published(ledger, {stream: (number, number + 1)}))
            case 1:
                announcer = Announcer(dag_id="impressions", run_id=f"run {choose.randrange(4)}", task_id="announce")
                asked[announcer] = announce(ledger, airflow, announcer)  # as its next try, if it is running
                airflow.running.add(announcer)
            case 2 if airflow.running:
                announcer = choose.choice(sorted(airflow.running, key=str))
                airflow.running.remove(announcer)
                if choose.random() < 0.5:
                    airflow.succeed(asked[announcer])
    airflow.running.clear()
    airflow.succeed(announce(ledger, airflow))
    assert sorted(airflow.batches()) == done
    assert announce(ledger, airflow) == []
    assert query(ledger, "SELECT count(*) FROM tideline.outbox WHERE announced_at IS NULL") == [(0,)]


# Laws of the database ---------------------------------------------------------------------------------------------------------


def test_whatever_publishes_a_batch_puts_it_into_the_outbox(ledger):
    """This includes a person at a psql prompt."""
    (stream,) = start_streams(ledger, 1)
    attempt = claim(ledger, plan(ledger, {stream: (0, 10)}))
    with ledger.transaction():
        ledger.connection.cursor().execute(
            "UPDATE tideline.batch_range SET n_read = 10, n_written = 10, n_rejected = 0, n_filtered = 0, n_gap = 0,"
            " published_log_start = 0, published_end = 10;"
            " UPDATE tideline.batch SET state = 'published'"
        )
    assert query(ledger, "SELECT batch_id, n_tries FROM tideline.outbox") == [(attempt.batch_id, 0)]


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM tideline.outbox",
        "UPDATE tideline.outbox SET announced_at = NULL",
        "UPDATE tideline.outbox SET published_at = now()",
        "UPDATE tideline.outbox SET n_tries = 0, dag_id = NULL, run_id = NULL, task_id = NULL",
        "INSERT INTO tideline.outbox (batch_id, pipeline) SELECT batch_id, pipeline FROM tideline.batch WHERE state = 'planned'",
    ],
)
def test_the_outbox_refuses_what_would_lose_or_double_an_event(ledger, airflow, batch_id, change):
    (stream,) = query(ledger, "SELECT stream_id FROM tideline.stream")[0]
    plan(ledger, {stream: (10, 20)})
    airflow.succeed(announce(ledger, airflow))
    announce(ledger, airflow)
    with pytest.raises(psycopg2.errors.RestrictViolation):
        execute(ledger, change)
