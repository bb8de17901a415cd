"""A replay loads offsets again and replaces exactly their rows, in one transaction, however often and however many run concurrently."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

import records
from loads.loading import RENAMING, actions, batches, coverage, everything, names, owners, ranges
from servers.concurrency import together
from servers.cutting_proxy import CuttingProxy, cut_before
from tideline.domain.requests import OneBatch, Window
from tideline.errors import FatalError, RetryableError
from tideline.ledger.attempts import Writer
from tideline.ledger.connection import Ledger
from tideline.spark_jobs import write_batches

pytestmark = pytest.mark.topic(records=30)

EVERYTHING = Window(start=datetime(2001, 1, 1, tzinfo=UTC), end=datetime(2999, 1, 1, tzinfo=UTC), replace=True)
DELETE, INSERT = 'DELETE FROM "ads"."output"', 'INSERT INTO "ads"."output"'
PUBLISH = "SET state = 'published'"


@pytest.fixture
def topic(loading, topic) -> str:
    """Load thirty records in one partition as the batches 1, 2 and 3, ten offsets each."""
    loading.declare(topic, batch_records=10)
    assert loading.run() == [1, 2, 3]
    return topic


def renamed(*offsets):
    """Return the names that `RENAMING` gives."""
    return {offset: f"new n{offset}" for offset in offsets}


def test_a_replay_with_an_unchanged_transform_changes_no_row_and_no_reject(loading):
    topic = records.create(loading.bootstrap, partitions=3)
    bad = {5: b"{bad", 17: None, 29: b'{"name": "no id"}', 48: b"\xff"}
    values = [bad.get(n, records.record(n)) for n in range(60)]
    records.produce(loading.bootstrap, topic, values, partitions=3)
    loading.declare(topic, batch_records=21)
    first = loading.run()
    before, heads = everything(loading), loading.heads()
    assert [len(part) for part in before] == [56, 4]
    again = loading.run(EVERYTHING)
    assert everything(loading) == before
    assert loading.heads() == heads
    assert {n: of for n, of in batches(loading).items() if n in first} == dict.fromkeys(first, ("live", "superseded"))
    assert {n: of for n, of in batches(loading).items() if n in again} == dict.fromkeys(again, ("replay", "advanced"))
    assert loading.rows("SELECT DISTINCT tideline_batch FROM ads.output ORDER BY 1") == [(n,) for n in again]
    assert loading.rows("SELECT count(*)::int FROM tideline.reject WHERE batch_id = ANY (%s)", again) == [(4,)]


def test_a_batch_that_is_replayed_whole_is_superseded_and_no_head_moves(loading, topic):
    loading.transform(RENAMING)
    assert loading.run(OneBatch(batch_id=2, replace=True)) == [4]
    assert coverage(loading) == [(0, 10, 1), (10, 20, 4), (20, 30, 3)]
    assert batches(loading)[2] == ("live", "superseded")
    assert batches(loading)[4] == ("replay", "advanced")
    assert actions(loading, 2)[-1] == "supersede"
    assert names(loading) == {n: f"n{n}" for n in range(30)} | renamed(*range(10, 20))
    assert loading.heads() == [30]
    assert loading.rows("SELECT supersedes FROM tideline.batch WHERE batch_id = 4") == [(2,)]


def test_a_replay_of_a_part_replaces_exactly_its_offsets(loading, topic):
    loading.transform(RENAMING)
    assert loading.run(ranges(f"{topic}/0 [5, 15)", replace=True)) == [4]
    assert coverage(loading) == [(0, 5, 1), (5, 15, 4), (15, 20, 2), (20, 30, 3)]
    assert names(loading) == {n: f"n{n}" for n in range(30)} | renamed(*range(5, 15))
    assert owners(loading) == {n: 4 if 5 <= n < 15 else 1 if n < 10 else 2 if n < 20 else 3 for n in range(30)}
    for part in (1, 2):
        assert batches(loading)[part] == ("live", "advanced")
        assert actions(loading, part)[-1] == "supersede partly"
    assert actions(loading, 3)[-1] == "advance"

    assert loading.run(ranges(f"{topic}/0 [0, 7)", replace=True)) == [5]
    assert coverage(loading) == [(0, 7, 5), (7, 15, 4), (15, 20, 2), (20, 30, 3)]
    assert batches(loading)[1] == ("live", "superseded")
    assert actions(loading, 4)[-1] == "supersede partly"
    assert loading.published() == 30


RAISING = """\
def records(batch):
    if {name!r} in batch["name"].to_pylist():
        raise ValueError("not this one")
    return batch
"""


def test_the_rejects_of_a_range_are_replaced_with_its_rows(loading):
    topic = records.create(loading.bootstrap)
    records.produce(loading.bootstrap, topic, [records.record(n) if n != 15 else b"{bad" for n in range(20)])
    loading.declare(topic, transform=RAISING.format(name="n3"))
    loading.run()
    assert set(loading.rejects()) == {(0, 3), (0, 15)}
    loading.transform(RAISING.format(name="n4"))
    loading.run(ranges(f"{topic}/0 [0, 10)", replace=True))
    assert set(loading.rejects()) == {(0, 4), (0, 15)}
    assert set(names(loading)) == set(range(20)) - {4, 15}
    assert loading.rows("SELECT kafka_offset, batch_id FROM tideline.reject ORDER BY 1") == [(4, 2), (15, 1)]


def test_a_replay_whose_transform_fails_half_way_leaves_the_old_rows(loading, topic):
    loading.declare(
        topic,
        transform="from pyspark.sql import functions as F\n"
        "def frame(df): return df.withColumn('name', F.udf(lambda n: str(1 // (n - 19)))('id'))",
    )
    batch_ids = loading.plan("replay", OneBatch(batch_id=2, replace=True))
    with pytest.raises(RetryableError, match="ZeroDivisionError"):
        loading.write("replay", batch_ids)
    assert names(loading) == {n: f"n{n}" for n in range(30)}
    assert coverage(loading) == [(0, 10, 1), (10, 20, 2), (20, 30, 3)]
    loading.transform(RENAMING)
    loading.write("replay", batch_ids, try_number=2)
    assert names(loading) == {n: f"n{n}" for n in range(30)} | renamed(*range(10, 20))


def test_rows_that_another_table_refers_to_are_not_replaced(loading, topic):
    key = "kafka_topic_id, kafka_partition, kafka_offset"
    loading.execute(f"CREATE TABLE bills (LIKE ads.output, FOREIGN KEY ({key}) REFERENCES ads.output)")
    loading.execute("INSERT INTO bills SELECT * FROM ads.output WHERE kafka_offset = 12")
    with pytest.raises(FatalError, match=r"ads\.output refuses the output as a whole: .* violates foreign key"):
        loading.run(OneBatch(batch_id=2, replace=True))
    assert (loading.published(), batches(loading)[2]) == (30, ("live", "advanced"))


@pytest.fixture
def proxy(ledger_url):
    with CuttingProxy(ledger_url) as proxy:
        yield proxy


def write_through(proxy, loading, batch_id, try_number=1):
    """Write with a driver whose ledger session uses the proxy."""
    writer = Writer(dag_id="test", run_id="replay", task_id="write", try_number=try_number)
    with Ledger(proxy.url, actor="through the proxy") as ledger:
        write_batches.write(ledger, loading.pipeline, batch_id, writer)


def test_a_replay_that_is_cut_off_before_its_commit_leaves_the_old_rows(loading, topic, proxy):
    before = everything(loading)
    loading.transform(RENAMING)
    (batch_id,) = loading.plan("replay", OneBatch(batch_id=2, replace=True))

    def cut_at_commit(server, data):
        proxy.at("COMMIT", cut_before)
        return True

    moments = [(DELETE, cut_before), (INSERT, cut_before), (PUBLISH, cut_before), (PUBLISH, cut_at_commit)]
    for try_number, (statement, act) in enumerate(moments, 1):
        proxy.at(statement, act)
        with pytest.raises(RetryableError):
            write_through(proxy, loading, batch_id, try_number)
        assert proxy.acted.is_set()
        proxy.acted.clear()
        assert (everything(loading), batches(loading)[2]) == (before, ("live", "advanced"))
    write_through(proxy, loading, batch_id, try_number=9)
    assert names(loading) == {n: f"n{n}" for n in range(30)} | renamed(*range(10, 20))
    assert batches(loading)[2] == ("live", "superseded")


def test_readers_never_see_a_range_that_is_being_replaced_empty(loading, topic, proxy):
    """One reader reads all the time, another one exactly between the delete and the insert."""
    loading.transform(
        "import pyarrow.compute as pc\ndef records(batch): return batch.filter(pc.not_equal(batch['id'], 11))"
    )
    (batch_id,) = loading.plan("replay", OneBatch(batch_id=2, replace=True))
    done, between = threading.Event(), []

    def look(server, data):
        between.append(loading.published())
        return True

    def keep_looking():
        seen = set()
        while not done.is_set():
            seen.add(loading.published())
        return seen

    proxy.at(INSERT, look)
    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(keep_looking)
        try:
            write_through(proxy, loading, batch_id)
        finally:
            done.set()
        assert looking.result(180) <= {30, 29}
    assert (between, loading.published()) == ([30], 29)


@pytest.fixture
def at_once(topic, monkeypatch):
    """Make two writers wait for each other before they publish."""
    barrier, publish = threading.Barrier(2), write_batches.flow.publish

    def meet(*arguments, **options):
        barrier.wait(120)
        return publish(*arguments, **options)

    monkeypatch.setattr(write_batches.flow, "publish", meet)


def test_two_replays_of_one_range_at_once_both_publish_and_the_later_one_owns(loading, topic, at_once):
    loading.transform(RENAMING)
    one, other = (loading.plan(run, OneBatch(batch_id=2, replace=True)) for run in ("one", "other"))
    together(lambda: loading.write("one", one), lambda: loading.write("other", other))
    (later,) = loading.rows(
        "SELECT batch_id FROM tideline.event WHERE action = 'publish' ORDER BY event_id DESC LIMIT 1"
    )[0]
    (earlier,) = {*one, *other} - {later}
    for run in ("one", "other"):
        loading.advance(run)
    assert coverage(loading) == [(0, 10, 1), (10, 20, later), (20, 30, 3)]
    assert {n: batches(loading)[n] for n in (2, earlier, later)} == {
        2: ("live", "superseded"),
        earlier: ("replay", "superseded"),
        later: ("replay", "advanced"),
    }
    assert names(loading) == {n: f"n{n}" for n in range(30)} | renamed(*range(10, 20))
    assert {owners(loading)[n] for n in range(10, 20)} == {later}


def test_a_replay_and_a_live_load_side_by_side(loading, topic, at_once):
    records.produce(loading.bootstrap, topic, map(records.record, range(30, 40)))
    loading.transform(RENAMING)
    replay = loading.plan("replay", ranges(f"{topic}/0 [25, 30)", replace=True))
    live = loading.plan("live")
    # The live run has both: a run for new records finishes the open batches of others.
    together(
        lambda: loading.write("replay", replay), lambda: loading.write("live", [n for n in live if n not in replay])
    )
    for run in ("replay", "live"):
        loading.advance(run)
    assert coverage(loading) == [(0, 10, 1), (10, 20, 2), (20, 25, 3), (25, 30, 4), (30, 40, 5)]
    assert names(loading) == {n: f"n{n}" for n in range(25)} | renamed(*range(25, 40))
    assert loading.heads() == [40]
