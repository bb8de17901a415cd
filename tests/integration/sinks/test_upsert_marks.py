"""Marks keep what was deleted deleted, and are pruned when nothing could bring it back."""

from contextlib import suppress
from dataclasses import replace

import pytest
from psycopg2.sql import SQL

from given_ledger.planners import declared
from loads.upserts import Rec, scene
from tideline import flow
from tideline.declaration import PostgresSink
from tideline.domain.states import BatchKind
from tideline.errors import FatalError, RetryableError
from tideline.ledger import connection
from tideline.ledger.connection import Ledger
from tideline.sinks.postgres import upserting
from tideline.sinks.postgres.fitting import Upsert

LOG = [Rec(1, "a"), Rec(2, "b"), Rec(1, None), Rec(2, None), Rec(3, "c")]


def upkeep(made):
    sink = PostgresSink(table=made.target.name, mode="upsert", key=("id",))
    pipeline = declared("127.0.0.1:1", "ads", name=made.pipeline).model_copy(update={"sink": sink})
    return flow.upkeep(made.ledger, pipeline)


def loaded(ledger, log=LOG, cut=0):
    """Load everything; at the end Kafka begins at `cut`."""
    made = scene(ledger, [[log]])
    [stream] = made.log
    made.load(made.plan({stream: (0, len(log) - 1)}))
    made.log_start = cut
    made.load(made.plan({stream: (len(log) - 1, len(log))}))
    made.advance()
    return made, stream


@pytest.mark.parametrize(("cut", "left"), [(0, {1: 2, 2: 3}), (2, {2: 3}), (3, {}), (5, {})])
def test_a_mark_goes_only_when_no_older_record_can_come(ledger, cut, left):
    made, _ = loaded(ledger, cut=cut)
    assert made.marks() == {1: 2, 2: 3}
    said = upkeep(made)
    assert made.marks() == left
    assert len(said) == (len(left) < 2)
    assert upkeep(made) == []


def test_an_older_reject_keeps_its_mark_until_it_is_redriven(ledger):
    made, _ = loaded(ledger, [Rec(1, "a"), Rec(2, "b", is_bad=True), *LOG[2:]], cut=5)
    upkeep(made)
    assert made.marks() == {1: 2, 2: 3}
    made.is_fixed = True
    made.redrive()
    assert made.table() == made.reduced() == {3: "c"}
    upkeep(made)
    assert made.marks() == {}


def test_an_open_batch_of_older_offsets_keeps_its_mark(ledger):
    made, stream = loaded(ledger, cut=5)
    replay = made.plan({stream: (1, 3)}, BatchKind.REPLAY)
    upkeep(made)
    assert made.marks() == {1: 2, 2: 3}
    made.load(replay)
    assert made.table() == {3: "c"}


def test_an_earlier_incarnation_that_may_still_be_read_keeps_all_marks(ledger):
    made = scene(ledger, [[LOG], [LOG]])
    for stream in made.log:
        made.load(made.plan({stream: (0, 4)}))
        made.log_start = 4
        made.load(made.plan({stream: (4, 5)}))
    made.advance()
    assert made.marks() == {1: 2, 2: 3}
    upkeep(made)
    assert len(made.marks()) == 2
    with ledger.transaction():
        ledger.run_sql(
            SQL("UPDATE tideline.stream SET state = 'retired' WHERE stream_id = %(s)s"), {"s": min(made.log)}
        )
    upkeep(made)
    assert made.marks() == {}


def test_a_mark_stays_although_compaction_has_removed_its_tombstone(ledger):
    made = scene(ledger, [[[Rec(1, "a", is_bad=True), Rec(1, None), Rec(2, "b")]]])
    [stream] = made.log
    made.load(made.plan({stream: (0, 3)}))
    made.gone = {(stream, 1)}
    made.load(made.plan({stream: (1, 3)}, BatchKind.REPLAY))
    assert made.marks() == {1: 1}
    made.is_fixed = True
    made.redrive()
    assert made.table() == {2: "b"}, "what was deleted stays deleted"


def test_a_publication_whose_session_ends_before_any_statement_changes_nothing(ledger, ledger_url, monkeypatch):
    """The newest rows, tombstones and marks of a batch are visible together with its state, or not at all."""
    made = scene(ledger, [[[Rec(1, "a"), Rec(2, "b")]], [[Rec(1, "c"), Rec(2, None), Rec(3, "d"), Rec(4, None)]]])
    first, second = made.log
    made.load(made.plan({first: (0, 2)}))
    batch_id = made.plan({second: (0, 4)})
    before = made.table(), made.marks()
    left, n_ended = [0], 0
    real = connection._execute

    def ending(cursor, *arguments):
        left[0] -= 1
        if left[0] == 0:
            with Ledger(ledger_url, actor="killer") as killer, killer.transaction():
                pid = cursor.connection.info.backend_pid
                killer.rows_of(SQL("SELECT pg_terminate_backend(%(pid)s)"), {"pid": pid})
        return real(cursor, *arguments)

    while True:
        attempt, staged, read = made.staged(batch_id)
        n_ended += 1
        left[0] = n_ended
        with Ledger(ledger_url, actor="writer") as writer:
            monkeypatch.setattr(connection, "_execute", ending)
            with suppress(RetryableError):
                made.publish(writer, attempt, staged)
            monkeypatch.setattr(connection, "_execute", real)
        with ledger.transaction():
            if ledger.rows("find_batch", batch_id=batch_id)[0]["state"] == "published":
                break
        assert (made.table(), made.marks()) == before, n_ended
    made.publishes(read)
    assert n_ended > 20
    assert (made.table(), made.marks()) == ({1: "c", 3: "d"}, {2: 1, 4: 3})
    assert made.table() == made.reduced()


def test_marks_of_another_key_are_refused_by_name(ledger):
    made, _ = loaded(ledger)
    with pytest.raises(FatalError, match=r"expected the columns of sink.key \(name\) and the coordinates, found id, "):
        upserting.prepare_marks(ledger, replace(made.target, upsert=Upsert(key=("name",), order=())))
