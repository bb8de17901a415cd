"""Any order of loads, replays and re-drives of an upsert table equals a reduce over the records that are loaded."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from psycopg2.sql import SQL

from given_ledger.ledgers import WAITING
from loads.upserts import Rec, Scene, scene
from tideline.domain.states import BatchKind
from tideline.errors import FatalError
from tideline.ledger.connection import Ledger
from tideline.sinks.postgres import upserting

KEYS = 4
FEW = settings(
    max_examples=settings.default.max_examples // 10,
    phases=[Phase.generate],  # without shrinking, which takes minutes of statements: an example has a few steps only
    # Each example has a pipeline and a table of its own in the test's ledger.
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
texts = st.text("abc", min_size=1, max_size=3)


def events(*, keys, ranked=False, deleting=False):
    """Draw the records of one partition."""
    record = st.builds(
        Rec,
        key=st.sampled_from(keys),
        name=texts if ranked and not deleting else st.one_of(st.none(), texts),
        rank=st.integers(0, 3) if ranked else st.just(0),
        is_bad=st.sampled_from([False, False, False, True]),
    )
    return st.lists(record, min_size=1, max_size=8)


def cut(data, made: Scene) -> list[int]:
    """Plan live batches over all records: the streams of an incarnation together, cut at random."""
    batch_ids = []
    streams = [*made.log]
    for first in range(0, len(streams), made.partitions):
        part = streams[first : first + made.partitions]
        heads = dict.fromkeys(part, 0)
        while left := {
            stream: len(made.log[stream]) - heads[stream] for stream in part if heads[stream] < len(made.log[stream])
        }:
            sizes = {stream: data.draw(st.integers(0, n), label="size") for stream, n in left.items()}
            if not any(sizes.values()):
                sizes = left
            batch_ids.append(made.plan({s: (heads[s], heads[s] + n) for s, n in sizes.items() if n}))
            heads |= {stream: heads[stream] + n for stream, n in sizes.items()}
    return batch_ids


def play(data, made: Scene) -> None:
    """Load everything in any order, between replays and re-drives, and compare after each step."""
    todo = data.draw(st.permutations(cut(data, made)), label="order")
    steps = data.draw(st.lists(st.sampled_from(["load", "replay", "redrive", "fix"]), max_size=12), label="steps")
    for step in [*steps, *["load"] * len(todo), "fix", "redrive"]:
        if step == "load" and todo:
            made.load(todo.pop())
        elif step == "replay" and made.loaded:
            stream = data.draw(st.sampled_from(sorted({stream for stream, _ in made.loaded})))
            there = sorted(offset for of, offset in made.loaded if of == stream)
            start = data.draw(st.sampled_from(there))
            end = next(n for n in range(start, len(made.log[stream]) + 1) if n not in there)
            made.load(made.plan({stream: (start, data.draw(st.integers(start + 1, end)))}, BatchKind.REPLAY))
        elif step == "redrive":
            made.redrive()
        elif step == "fix":
            made.is_fixed = True
        assert made.table() == made.reduced(), step
    assert set(made.loaded.values()) == {True}


@settings(FEW, max_examples=settings.default.max_examples // 5)
@given(data=st.data())
def test_any_order_of_loads_replays_and_redrives_equals_the_reduce(ledger, data):
    log = [data.draw(events(keys=[n for n in range(KEYS) if n % 2 == part])) for part in (0, 1)]
    play(data, scene(ledger, [log]))


@FEW
@given(data=st.data())
def test_records_of_a_topic_that_was_created_again_are_newer_whatever_their_offsets(ledger, data):
    first = [data.draw(events(keys=[n for n in range(KEYS) if n % 2 == part])) for part in (0, 1)]
    second = [data.draw(events(keys=[n for n in range(KEYS) if n % 2 != part])) for part in (0, 1)]
    play(data, scene(ledger, [first, second]))


@FEW
@given(data=st.data())
def test_an_order_decides_whatever_the_partition_and_the_order_of_loads(ledger, data):
    log = [data.draw(events(keys=range(KEYS), ranked=True)) for _ in (0, 1)]
    # Of records with equal ranks the larger offset wins, and of two partitions the later one: not compared here.
    ranks = iter(range(100))
    log = [[Rec(one.key, one.name, one.rank * 100 + next(ranks), one.is_bad) for one in part] for part in log]
    play(data, scene(ledger, [log], ordered=True))


@FEW
@given(data=st.data())
def test_an_order_decides_between_rows_and_deletions_that_say_it(ledger, data):
    log = [data.draw(events(keys=range(KEYS), ranked=True, deleting=True)) for _ in (0, 1)]
    ranks = iter(range(100))
    log = [[replace(one, rank=one.rank * 100 + next(ranks)) for one in part] for part in log]
    play(data, scene(ledger, [log], ordered=True))


def history(data) -> list[Rec]:
    """Draw what a connector writes about a table: changes with their ranks, a tombstone behind each deletion, and what it sends again."""
    log: list[Rec] = []
    for rank in range(1, data.draw(st.integers(1, 8), label="changes") + 1):
        key, name = data.draw(st.sampled_from(range(KEYS))), data.draw(st.one_of(st.none(), texts))
        log.append(Rec(key, name, rank))
        if name is None:
            log.append(Rec(key, None, None))
    again = data.draw(st.lists(st.integers(0, len(log) - 1), max_size=2), label="again from")
    for start in again:  # it was killed, and goes on from an older place to the end
        log += log[start if log[start].rank is not None else start - 1 :]
    return log


@FEW
@given(data=st.data())
def test_whatever_a_connector_sends_again_and_in_whatever_order_it_is_loaded_the_table_ends_as_the_source(ledger, data):
    log = history(data)
    source = {
        one.key: one.name for one in sorted((one for one in log if one.rank is not None), key=lambda one: one.rank or 0)
    }
    made = scene(ledger, [[log]], ordered=True)
    [stream] = made.log
    removed = {n for n, one in enumerate(log) if any(other.key == one.key for other in log[n + 1 :])}
    made.gone = {
        (stream, n)
        for n in data.draw(st.sets(st.sampled_from(sorted(removed)) if removed else st.nothing()), label="compacted")
    }
    for batch_id in data.draw(st.permutations(cut(data, made)), label="order"):
        made.load(batch_id)
    for _ in range(data.draw(st.integers(0, 3), label="replays")):
        start = data.draw(st.integers(0, len(log) - 1))
        made.load(made.plan({stream: (start, data.draw(st.integers(start + 1, len(log))))}, BatchKind.REPLAY))
    assert made.table() == {key: name for key, name in source.items() if name is not None}


def test_a_row_and_its_tombstone_that_are_published_at_once_leave_no_row(ledger, ledger_url):
    """Two transactions that do not see each other: without the lock the first would keep its row."""
    made = scene(ledger, [[[Rec(1, "a"), Rec(1, None)]]])
    [stream] = made.log
    rows, tombstones = (made.staged(made.plan({stream: (n, n + 1)})) for n in (0, 1))
    with Ledger(ledger_url, actor="first") as first, Ledger(ledger_url, actor="second") as second:
        with first.transaction():
            upserting.insert_output(first, rows[1])
            with ThreadPoolExecutor(1) as pool:
                later = pool.submit(made.publish, second, *tombstones[:2])
                _until_it_waits_or_ends(ledger_url, later)
                first.connection.commit()
        later.result()
    assert (made.table(), made.marks()) == ({}, {1: 1})


def _until_it_waits_or_ends(url, future):
    with Ledger(url, actor="watcher") as watcher:
        while not future.done():
            with watcher.transaction():
                if watcher.rows_of(SQL(WAITING), {}):
                    return
            time.sleep(0.02)


@pytest.mark.parametrize("log", [[[Rec(1, "a")], [Rec(1, "b")]], [[Rec(1, None)], [Rec(1, "b")]]])
@pytest.mark.parametrize("together", [True, False])
def test_a_key_from_two_partitions_is_refused_and_changes_nothing(ledger, log, together):
    made = scene(ledger, [log])
    one, two = made.log
    if not together:
        made.load(made.plan({one: (0, 1)}))
    batch_id = made.plan({one: (0, 1), two: (0, 1)} if together else {two: (0, 1)})
    before = made.table(), made.marks()
    with pytest.raises(FatalError, match=r"one key in ads/[01] and ads/[01]"):
        made.load(batch_id)
    assert (made.table(), made.marks()) == before


def test_a_record_that_another_batch_has_written_is_not_written_again(ledger):
    made = scene(ledger, [[[Rec(1, "a"), Rec(1, "b")]]])
    [stream] = made.log
    made.load(made.plan({stream: (0, 2)}))
    with ledger.transaction():
        ledger.run_sql(SQL("UPDATE {} SET kafka_topic_id = gen_random_uuid()").format(made.target.identifier), {})
    with pytest.raises(FatalError, match="another writer has inserted it"):
        made.load(made.plan({stream: (0, 2)}, BatchKind.REPLAY))
