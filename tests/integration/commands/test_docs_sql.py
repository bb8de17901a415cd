"""The queries of docs/operating.md answer the questions in their headings, on a ledger with some of everything."""

import pytest

from given_ledger.documented_queries import queries, the_query
from given_ledger.ledgers import PIPELINE, claim, leave_hole, plan, publish, query, stage, start_streams
from tideline.ledger import attempts, heads
from tideline.ledger.attempts import Writer
from tideline.ledger.reservations import Run

RUN = Run(dag_id=PIPELINE, run_id="scheduled__2026-11-21T14:00:00+00:00")
WRITER = Writer(dag_id=RUN.dag_id, run_id=RUN.run_id, task_id="write", try_number=1)
PAGE = "operating.md"
MISSING = the_query(PAGE, "missing_offsets")
NOT_TEXT = b"\xff\xfe not text"


@pytest.fixture
def story(ledger):
    """Batch 1 failed, then was written with a reject and a filtered record; batch 2 is open, then offsets are skipped; another stream stopped."""
    loaded, stopped = start_streams(ledger, 2)
    first = plan(ledger, {loaded: (0, 10)}, run=RUN)
    attempts.fail(ledger, claim(ledger, first, writer=WRITER), "the broker went away")
    attempt = claim(ledger, first, writer=WRITER)
    stage(ledger, attempt, n_filtered=1)
    with ledger.transaction():
        ledger.run(
            "stage_rejects",
            attempt=attempt.attempt,
            stream_ids=[loaded],
            offsets=[3],
            steps=["decode"],
            reasons=["not valid JSON"],
            timestamps_ms=[1_795_269_600_000],
            keys=[None],
            values=[NOT_TEXT],
            headers=[None],
        )
        ledger.run("stop_stream", stream_id=stopped, because="the partition is gone")
    publish(ledger, attempt, written={loaded: 8})
    heads.advance_published(ledger, PIPELINE)
    plan(ledger, {loaded: (10, 20)}, run=Run(dag_id=PIPELINE, run_id="manual__1"))
    leave_hole(ledger, loaded, 20, 23, "skipped")
    return ledger


def answer(ledger, words):
    """Execute the only query with these words in it; return its rows, each by column name."""
    with ledger.transaction(), ledger.connection.cursor() as cursor:
        cursor.execute(the_query(PAGE, words))
        return [dict(row) for row in cursor.fetchall()]


@pytest.mark.parametrize("text", [text for text in queries(PAGE, "Asking the ledger") if text != MISSING])
def test_every_query_of_the_docs_answers(story, text):
    assert query(story, text)


def test_the_docs_find_what_a_run_read(story):
    (row,) = answer(story, "planned_by, topic")
    assert (row["start_offset"], row["end_offset"], row["planned_by"]) == (0, 10, RUN.run_id)
    assert [row[name] for name in ("n_read", "n_written", "n_rejected", "n_filtered", "n_gap")] == [10, 8, 1, 1, 0]


def test_the_docs_find_why_a_run_failed(story):
    failed, published = answer(story, "heartbeat_at")
    assert (failed["outcome"], failed["problem"]) == ("failed", "the broker went away")
    assert (published["outcome"], published["fence"]) == ("published", 2)


def test_the_docs_show_a_rejected_record_whatever_its_bytes(story):
    (row,) = answer(story, "kafka_timestamp")
    assert (row["partition"], row["kafka_offset"], row["reason"]) == (0, 3, "not valid JSON")
    assert row["value"] == r"\377\376 not text"


def test_the_query_in_the_docs_finds_offsets_without_an_account(story):
    assert query(story, MISSING) == []
    # As after a restore of single tables: without triggers offsets may lose their owner.
    query(story, "SET LOCAL session_replication_role = replica; DELETE FROM tideline.coverage")
    assert [row[:3] for row in query(story, MISSING)] == [(PIPELINE, "ads", 0)]
