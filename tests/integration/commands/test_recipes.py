"""The recipes of docs/operating.md prove that a range is completely loaded, and give its rows in order."""

import pytest

from given_ledger.documented_queries import queries, the_query
from given_ledger.ledgers import PIPELINE, TOPIC_ID, execute, plan, published, query, start_streams, write
from tideline.domain.states import BatchKind
from tideline.ledger import heads
from tideline.ledger.reservations import Run
from tideline.settings import PROJECT

BEFORE = Run(dag_id=PIPELINE, run_id="scheduled__2026-11-21T13:00:00+00:00")
RUN = Run(dag_id=PIPELINE, run_id="scheduled__2026-11-21T14:00:00+00:00")
AFTER = Run(dag_id=PIPELINE, run_id="scheduled__2026-11-21T15:00:00+00:00")
PAGE = "operating.md"
PROOF = the_query(PAGE, "run_completeness")
SORTED = the_query(PAGE, "ORDER BY topic, kafka_partition, kafka_offset")


@pytest.fixture
def streams(ledger):
    """Load two streams at 13:00, and the table with a row for each of their first offsets, in no order."""
    first, second = start_streams(ledger, 2)
    published(ledger, {first: (0, 10), second: (0, 5)}, run=BEFORE)
    target = PROJECT / "include" / "pipelines" / "impressions" / "target.sql"
    execute(ledger, target.read_text(encoding="utf-8"))
    for offset in (12, 3, 25, 17, 9, 0, 21, 10, 19):
        for partition in (1, 0):
            execute(
                ledger,
                "INSERT INTO ads.impressions (impression_id, offer_id, price, shown_at, kafka_topic_id, kafka_partition,"
                " kafka_offset, tideline_batch) VALUES (gen_random_uuid(), 1, 1, now(), %s, %s, %s, 1)",
                str(TOPIC_ID), partition, offset,
            )  # fmt: skip
    return first, second


def not_loaded(ledger):
    """Return for each partition in which the run has found records: the range, and what of it is not loaded."""
    return {partition: (start, end, str(rest)) for _, partition, start, end, rest in query(ledger, PROOF)}


def test_a_run_whose_batches_are_published_proves_that_all_before_its_end_is_loaded(ledger, streams):
    first, second = streams
    published(ledger, {first: (10, 20)}, run=RUN)
    published(ledger, {first: (20, 30), second: (5, 20)}, run=AFTER)
    assert not_loaded(ledger) == {0: (0, 20, "{}")}


def test_offsets_of_an_open_batch_are_not_loaded_until_it_is_published(ledger, streams):
    first, second = streams
    open_one = plan(ledger, {first: (10, 20), second: (5, 20)}, run=RUN)
    assert not_loaded(ledger) == {0: (0, 20, "{[10,20)}"), 1: (0, 20, "{[5,20)}")}
    write(ledger, open_one)
    assert not_loaded(ledger) == {0: (0, 20, "{}"), 1: (0, 20, "{}")}


def test_holes_and_offsets_without_an_account_are_not_loaded(ledger, streams):
    first, _ = streams
    published(ledger, {first: (10, 20)}, run=RUN)
    query(
        ledger,
        "SET LOCAL session_replication_role = replica;"
        "UPDATE tideline.coverage SET offsets = '[0,4)' WHERE stream_id = %s AND offsets = '[0,10)';"
        "INSERT INTO tideline.coverage (stream_id, offsets, hole, reason, decided_by) VALUES (%s, '[6,8)', 'skipped', 'poison', 'ada')",
        first, first,
    )  # fmt: skip
    assert not_loaded(ledger) == {0: (0, 20, "{[4,10)}")}


def test_the_rows_of_the_run_come_in_the_order_of_kafka(ledger, streams):
    first, second = streams
    published(ledger, {first: (10, 15)}, run=RUN)
    published(ledger, {first: (15, 20), second: (5, 18)}, run=RUN)
    places = [row[10:13] for row in query(ledger, SORTED)]
    assert [place[1:] for place in places] == [(0, 10), (0, 12), (0, 17), (0, 19), (1, 9), (1, 10), (1, 12), (1, 17)]


def test_a_run_that_has_read_offsets_twice_has_each_row_once(ledger, streams):
    first, _ = streams
    published(ledger, {first: (10, 20)}, run=RUN)
    heads.advance_published(ledger, PIPELINE)
    before = query(ledger, SORTED)
    published(ledger, {first: (12, 18)}, run=RUN, kind=BatchKind.REPLAY)
    assert len(before) == 4
    assert query(ledger, SORTED) == before


def test_each_query_of_the_page_is_tested():
    """The others are tested in test_docs_sql.py, those of states with the pipeline `sessions`, in state/test_sessions_pipeline.py."""
    of_states = {the_query(PAGE, words) for words in ("AS watermark", "AS came_with_batch")}
    recipes = queries(PAGE, "Recipes")
    assert set(recipes) == {PROOF, SORTED, *of_states}
    assert queries(PAGE) == [*queries(PAGE, "Asking the ledger"), *recipes], "those of other sections are not tested"
