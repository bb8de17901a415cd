"""The views of the ledger say in SQL what its own commands say."""

from uuid import uuid4

import psycopg2
import pytest

from given_ledger import ledgers
from given_ledger.ledgers import PIPELINE, query
from tideline import flow
from tideline.domain.states import BatchKind
from tideline.ledger import heads, queries
from tideline.ledger.reservations import Run

VIEWS = ("run_offsets", "run_completeness", "missing_offsets", "holes")
FIRST = Run(dag_id=PIPELINE, run_id="scheduled__1")
SECOND = Run(dag_id=PIPELINE, run_id="scheduled__2")
AGAIN = Run(dag_id="replay", run_id="manual__1")
EARLIER = Run(dag_id=PIPELINE, run_id="backfill__1")


@pytest.fixture
def story(ledger):
    """Two streams from offset 20: loaded, loaded again, skipped, lost, given up, open, loaded before the start; and another pipeline."""
    one, two = ledgers.start_streams(ledger, 2, start=20)
    ledgers.published(ledger, {one: (20, 40), two: (20, 30)}, run=FIRST)
    ledgers.leave_hole(ledger, one, 40, 45, "skipped")
    ledgers.leave_hole(ledger, two, 30, 33, "lost")
    heads.advance_published(ledger, PIPELINE)
    ledgers.published(ledger, {one: (22, 26)}, run=AGAIN, kind=BatchKind.REPLAY)
    flow.abandon(ledger, ledgers.plan(ledger, {two: (33, 40)}, run=SECOND), reason="wrong")
    ledgers.plan(ledger, {one: (45, 60)}, run=SECOND)
    ledgers.published(ledger, {two: (10, 15)}, run=EARLIER, kind=BatchKind.BACKFILL)
    (other,) = ledgers.start_streams(ledger, 1, pipeline="other")
    ledgers.plan(ledger, {other: (0, 5)}, run=Run(dag_id="other", run_id=FIRST.run_id), pipeline="other")
    return ledger


def damage(ledger) -> None:
    """As after a restore of single tables: without triggers offsets may lose their owner."""
    query(
        ledger,
        "SET LOCAL session_replication_role = replica; DELETE FROM tideline.coverage WHERE offsets @> 22::bigint",
    )


def of_run(view: str, run: Run) -> str:
    return f"SELECT * FROM tideline.{view} WHERE pipeline = '{PIPELINE}' AND dag_id = '{run.dag_id}' AND run_id = '{run.run_id}'"


def rows(ledger, sql: str) -> list[dict]:
    """Return the rows of a query, each by column name."""
    with ledger.transaction(), ledger.connection.cursor() as cursor:
        cursor.execute(sql)
        return [dict(row) for row in cursor.fetchall()]


def places(ledger, view: str) -> list[tuple]:
    return query(
        ledger,
        f"SELECT topic, partition, start_offset, end_offset FROM tideline.{view} WHERE pipeline = %s ORDER BY 1, 2, 3",
        PIPELINE,
    )


@pytest.mark.parametrize("run", [FIRST, SECOND, AGAIN, EARLIER], ids=lambda run: run.run_id)
def test_the_offsets_of_a_run_are_those_that_the_commands_show_of_its_batches(story, run):
    found = rows(story, f"{of_run('run_offsets', run)} ORDER BY position, topic, partition")
    with queries.reading(story):
        batches = story.rows("view_run", dag_id=run.dag_id, run_id=run.run_id)
        wanted = [
            {"batch_id": batch["batch_id"], "kind": batch["kind"], "state": batch["state"], **dict(piece)}
            for batch in batches
            if batch["pipeline"] == PIPELINE
            for piece in story.rows("view_batch_ranges", batch_id=batch["batch_id"])
        ]
    assert wanted
    both = found[0].keys() & wanted[0].keys()
    assert both >= {"batch_id", "kind", "state", "topic", "partition", "start_offset", "end_offset", "n_read", "n_gap"}
    assert [{name: row[name] for name in both} for row in found] == [
        {name: row[name] for name in both} for row in wanted
    ]


def test_holes_are_those_of_the_command_with_their_reasons_and_names(story):
    found = rows(story, f"SELECT * FROM tideline.holes WHERE pipeline = '{PIPELINE}' ORDER BY topic, partition")
    with queries.reading(story):
        wanted = [dict(row) for row in story.rows("view_holes", pipeline=PIPELINE)]
    assert [row["hole"] for row in wanted] == ["skipped", "lost"]
    assert [{name: row[name] for name in wanted[0]} for row in found] == wanted


@pytest.mark.parametrize("damaged", [False, True], ids=["as the laws keep it", "damaged"])
def test_missing_offsets_are_those_that_the_command_finds(story, damaged):
    if damaged:
        damage(story)
    with queries.reading(story):
        wanted = [
            (row["topic"], row["partition"], *piece)
            for row in story.rows("view_coverage", pipeline=PIPELINE)
            for piece in row["missing"]
        ]
    assert places(story, "missing_offsets") == wanted
    assert bool(wanted) == damaged


def test_what_a_run_has_not_loaded_is_in_holes_in_open_batches_or_of_nobody(story):
    def not_loaded(run):
        found = rows(story, of_run("run_completeness", run))
        return {row["partition"]: (row["start_offset"], row["end_offset"], str(row["not_loaded"])) for row in found}

    assert not_loaded(FIRST) == {0: (20, 40, "{}"), 1: (20, 30, "{}")}
    assert not_loaded(SECOND) == {0: (20, 60, "{[40,60)}"), 1: (20, 40, "{[30,40)}")}
    assert not_loaded(AGAIN) == {0: (20, 26, "{}")}
    damage(story)
    assert not_loaded(FIRST)[0] == (20, 40, "{[22,26)}")


def test_a_run_for_offsets_before_the_start_is_complete_up_to_its_own_last_one(story):
    [row] = rows(story, of_run("run_completeness", EARLIER))
    assert (row["start_offset"], row["end_offset"], str(row["not_loaded"])) == (10, 15, "{}")


def test_a_pipeline_that_retires_stays_in_the_views(story):
    before = [places(story, view) for view in VIEWS]
    for (batch_id,) in query(story, "SELECT batch_id FROM tideline.batch WHERE state = 'planned'"):
        flow.abandon(story, batch_id, reason="given up")
    assert flow.retire(story, PIPELINE, reason="given up")
    assert [places(story, view) for view in VIEWS] == before
    assert len(places(story, "holes")) == 2


def test_an_empty_ledger_has_nothing_to_show(ledger):
    assert [query(ledger, f"SELECT * FROM tideline.{view}") for view in VIEWS] == [[]] * len(VIEWS)


def test_a_view_shows_no_user_what_the_tables_do_not(story):
    role = f"curious_{uuid4().hex[:8]}"
    query(story, f"CREATE ROLE {role}; GRANT USAGE ON SCHEMA tideline TO {role}")
    try:
        for view in VIEWS:
            query(story, f"GRANT SELECT ON tideline.{view} TO {role}")
            with pytest.raises(psycopg2.errors.InsufficientPrivilege, match="permission denied for table"):
                query(story, f"SET LOCAL ROLE {role}; SELECT * FROM tideline.{view}")
    finally:
        query(story, f"DROP OWNED BY {role}; DROP ROLE {role}")
