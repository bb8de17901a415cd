"""The checker reports nothing for a correct ledger, needs nothing of the code that it checks, and handles millions of rows."""

import subprocess
import sys
import tracemalloc
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import psycopg2
import pytest

from faults import records
from faults.checker import Remembered, read, violations
from faults.checker.all_laws import AT_MOST
from faults.checker.facts import (
    WRITTEN,
    Batch,
    Commit,
    Coverage,
    Expected,
    Found,
    Outgoing,
    Range,
    Record,
    Row,
    Stream,
)
from faults.checker.healthy import NAME, TABLE
from given_ledger import ledgers
from tideline import flow
from tideline.ledger.connection import Ledger
from tideline.settings import PROJECT


def checked(url, truth, *, quiet=False, pruned=False):
    with read(url, NAME, TABLE, records.OUTPUT) as found:
        return violations(found, truth, quiet=quiet, pruned=pruned)


def laws(seen):
    return {violation.law for violation in seen}


def test_a_ledger_that_has_come_to_rest_breaks_no_law(quiet):
    assert checked(quiet.url, quiet.truth, quiet=True) == []


def test_unfinished_work_breaks_no_law_until_all_should_be_finished(busy):
    assert checked(busy.url, busy.truth) == []
    assert laws(checked(busy.url, busy.truth, quiet=True)) == {"jammed", "unread", "unannounced"}


def test_rows_that_are_committed_outside_break_no_law_until_their_batch_should_be_published(busy):
    with read(busy.url, NAME, TABLE, records.OUTPUT) as found:
        [writing] = [batch.batch_id for batch in found.batches if batch.state == "writing"]
        [piece] = [piece for piece in found.ranges if piece.batch_id == writing]
        kept = {stream: list(found.rows(stream)) for stream in found.streams}

        def rows(stream):
            early = [Row(piece.start, writing)] * (stream.stream_id == piece.stream_id)
            return iter(sorted(kept[stream] + early, key=lambda row: row.offset))

        ahead = replace(found, rows=rows)
        assert laws(violations(ahead, busy.truth, quiet=False)) == {"unpublished"}
        outside = [replace(batch, outside=batch.batch_id == writing) for batch in found.batches]
        ahead = replace(ahead, batches=outside, commits=[Commit(writing, UUID(int=1), 1)])
        assert violations(ahead, busy.truth, quiet=False) == []
        assert "unsettled" in laws(violations(ahead, busy.truth, quiet=True))


def test_the_ledger_that_is_checked_has_seen_everything(busy):
    with read(busy.url, NAME, TABLE, records.OUTPUT) as found:
        assert {batch.kind for batch in found.batches} == {"live", "backfill", "replay", "redrive"}
        assert {batch.state for batch in found.batches} == {
            "planned", "writing", "failed", "published", "advanced", "abandoned", "superseded",
        }  # fmt: skip
        assert {stream.state for stream in found.streams} == {"active", "retired"}
        assert {piece.hole for piece in found.coverage} == {None, "skipped", "lost"}
        assert {attempt.outcome for attempt in found.attempts} == {None, "published", "failed", "superseded"}
        assert {"refuse", "supersede", "supersede partly"} <= {event.action for event in found.events}
        assert all(next(found.rejects(stream)) for stream in found.streams[:2])


def test_a_pipeline_that_never_ran_breaks_no_law(ledger_url):
    assert checked(ledger_url, Remembered({}, expected=lambda *_: None), quiet=True) == []


def test_the_checker_knows_nothing_of_the_code_that_it_checks():
    """Nor do the values that the other test folders build: an error must not be repeated on both sides."""
    made_for_tests = {"conftest", "healthy", "plants"}
    names = {path.stem for path in Path(__file__).parent.glob("*.py")}
    modules = [f"faults.checker.{name}" for name in names - made_for_tests if not name.startswith(("test_", "__"))]
    code = f"import sys, {', '.join(modules)}; print(*{{name.split('.')[0] for name in sys.modules}})"
    loaded = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=PROJECT / "tests"
    ).stdout.split()
    assert "psycopg2" in loaded
    assert not {"tideline", "pyspark", "airflow"} & set(loaded)


@pytest.fixture
def pruned(postgres, quiet):
    """Delete half of all events as too old, which cuts histories in the middle."""
    with ledgers.copy_of(postgres, quiet.url.rpartition("/")[2]) as url:
        with closing(psycopg2.connect(url)) as connection, connection, connection.cursor() as cursor:
            cursor.execute("SET session_replication_role = replica")
            cursor.execute(
                "UPDATE tideline.event SET at = at - interval '1 year' WHERE event_id < (SELECT avg(event_id) FROM tideline.event)"
            )
        pipeline = quiet.pipeline.model_copy(
            update={"upkeep": quiet.pipeline.upkeep.model_copy(update={"events_days": 30})}
        )
        with Ledger(url, actor="test") as ledger:
            assert "events older than 30 days deleted" in flow.upkeep(ledger, pipeline)[-1]
        yield url


def test_histories_that_upkeep_has_shortened_are_whole_for_who_knows_of_it(pruned, quiet):
    assert checked(pruned, quiet.truth, quiet=True, pruned=True) == []
    assert laws(checked(pruned, quiet.truth)) == {"broken chain", "head history", "fence"}


def test_the_history_of_work_under_way_is_never_pruned(postgres, busy):
    with ledgers.copy_of(postgres, busy.url.rpartition("/")[2]) as url:
        with closing(psycopg2.connect(url)) as connection, connection, connection.cursor() as cursor:
            cursor.execute("SET session_replication_role = replica")
            cursor.execute("DELETE FROM tideline.event WHERE batch_id = 29 AND to_state = 'planned'")
        assert laws(checked(url, busy.truth, pruned=True)) == {"broken chain"}


def test_all_of_a_reading_is_of_one_moment_and_comes_through_cursors_on_the_server(postgres, quiet):
    with ledgers.copy_of(postgres, quiet.url.rpartition("/")[2]) as url, closing(psycopg2.connect(url)) as other:
        with read(url, NAME, TABLE, records.OUTPUT) as found:
            with other, other.cursor() as cursor:
                cursor.execute("DELETE FROM ads.output")
            assert violations(found, quiet.truth, quiet=True) == []
            rows = found.rows(found.streams[0])
            next(rows)
            with other, other.cursor() as cursor:
                cursor.execute("SELECT query FROM pg_stat_activity WHERE application_name = 'checker'")
                assert cursor.fetchone()[0].startswith("FETCH FORWARD")
        assert laws(checked(url, quiet.truth)) == {"lost", "miscounted"}


STREAM = Stream(1, "c", "ads", UUID(int=1), 0, 0, 0)


def one_batch(n, rows, **changes):
    """Return a ledger with one advanced batch of n records, and without history."""
    found = Found(
        streams=[replace(STREAM, next_offset=n)],
        batches=[Batch(1, "live", "advanced", 0, None)],
        ranges=[Range(1, 1, 0, n, reserves=True, n_read=n, n_written=n, n_rejected=0, n_filtered=0, n_gap=0)],
        coverage=[Coverage(1, 0, n, batch_id=1)],
        attempts=[],
        events=[],
        outbox=[Outgoing(1, announced=False)],
        rows=rows,
        rejects=lambda stream: iter(()),
    )
    return replace(found, **changes)


class Counting:
    """Endless records, each of which becomes one row with its offset."""

    def records(self, stream, start, end):
        return map(Record, range(start, end))

    def expected(self, stream, record):
        return Expected(frozenset({WRITTEN}), ((record.offset,),))


def of_records(seen):
    """Drop violations of the history, which these ledgers do not have."""
    return [violation for violation in seen if violation.law not in {"broken chain", "winner", "head history"}]


def test_many_rows_pass_in_flat_memory():
    n = 30_000
    found = one_batch(n, lambda stream: (Row(offset, 1, (offset,)) for offset in range(n)))
    tracemalloc.start()
    try:
        assert of_records(violations(found, Counting(), quiet=False)) == []
        assert tracemalloc.get_traced_memory()[1] < 300_000
    finally:
        tracemalloc.stop()


def test_what_does_not_ascend_is_not_checked_at_all():
    rows = [Row(1, 1, (1,)), Row(0, 1, (0,))]
    with pytest.raises(ValueError, match="offset 0 of records, rows or rejects comes after 1"):
        violations(one_batch(2, lambda stream: iter(rows)), Remembered({}, expected=lambda *_: None), quiet=False)


def test_when_everything_is_lost_a_few_are_named_and_the_rest_counted():
    seen = of_records(violations(one_batch(1_000, lambda stream: iter(())), Counting(), quiet=False))
    lost = [violation for violation in seen if violation.law == "lost"]
    assert len(lost) == AT_MOST + 1
    assert lost[-1].text == "980 more"


def test_a_row_of_not_a_number_is_the_one_that_was_expected():
    nan = float("nan")
    truth = Remembered(
        {(STREAM.topic_id, 0): [Record(0)]},
        expected=lambda *_: Expected(frozenset({WRITTEN}), ((float("nan"), [1]), (2.0, [2]))),
    )
    rows = [Row(0, 1, (2.0, [2])), Row(0, 1, (nan, [1]))]
    assert of_records(violations(one_batch(1, lambda _: iter(rows)), truth, quiet=False)) == []
    rows[1] = Row(0, 1, (nan, [3]))
    assert laws(of_records(violations(one_batch(1, lambda _: iter(rows)), truth, quiet=False))) == {"altered"}


def test_a_row_of_a_record_that_must_be_rejected_is_no_good_whatever_it_says():
    truth = Remembered(
        {(STREAM.topic_id, 0): [Record(0)]}, expected=lambda *_: Expected(frozenset({"rejected"}), ((0,),))
    )
    seen = of_records(violations(one_batch(1, lambda _: iter([Row(0, 1, (0,))])), truth, quiet=False))
    assert laws(seen) == {"wrong fate"}


@pytest.mark.parametrize(
    ("law", "piece"),
    [
        ("hole", Coverage(1, 1, 2, hole="forgiven", reason="because", decided_by="ada")),
        ("owner", Coverage(1, 1, 1, hole="lost", reason="because", decided_by="ada")),
        ("owner", Coverage(1, 1, 2, batch_id=1, hole="lost", reason="because", decided_by="ada")),
    ],
)
def test_coverage_that_the_database_would_not_even_take_is_named(law, piece):
    truth = Remembered({(STREAM.topic_id, 0): [Record(0)]}, expected=Counting().expected)
    found = one_batch(1, lambda _: iter([Row(0, 1, (0,))]))
    seen = violations(replace(found, coverage=[*found.coverage, piece]), truth, quiet=False)
    assert laws(of_records(seen)) == {law}


def test_what_is_remembered_is_what_was_put_in():
    log = [Record(offset) for offset in (0, 1, 5, 7)]
    truth = Remembered({(STREAM.topic_id, 0): log}, expected=lambda *_: None, ends={(STREAM.topic_id, 1): 3})
    assert [record.offset for record in truth.records(STREAM, 1, 7)] == [1, 5]
    assert truth.end(STREAM) == 8
    log.append(Record(8))
    assert [record.offset for record in truth.records(STREAM, 6, 100)] == [7, 8]
    assert (truth.end(STREAM), truth.end(replace(STREAM, partition=1)), truth.end(replace(STREAM, partition=2))) == (
        9,
        3,
        0,
    )
