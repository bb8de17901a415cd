"""Upkeep removes what dead attempts leave behind, and nothing that is still needed."""

import pytest

from given_ledger.ledgers import PIPELINE, RUN, claim, plan, publish, published, query, stage, start_streams
from given_ledger.planners import declared
from tideline import flow
from tideline.domain.states import BatchState
from tideline.errors import SupersededError
from tideline.ledger.connection import Ledger


@pytest.fixture
def pipeline():
    return declared("127.0.0.1:1", "ads", name=PIPELINE)


def with_events_of(pipeline, days):
    return pipeline.model_copy(update={"upkeep": pipeline.upkeep.model_copy(update={"events_days": days})})


def fall_silent(ledger):
    query(ledger, "UPDATE tideline.attempt SET heartbeat_at = now() - interval '1 hour'")


def staging_table(ledger, batch_id, fence):
    [(attempt,)] = query(
        ledger, "SELECT attempt FROM tideline.attempt WHERE (batch_id, fence) = (%s, %s)", batch_id, fence
    )
    query(ledger, f"CREATE TABLE tideline_staging.attempt_{attempt.hex} (id bigint)")
    return f"attempt_{attempt.hex}"


def tables(ledger):
    return [
        row[0]
        for row in query(
            ledger, "SELECT tablename::text FROM pg_tables WHERE schemaname = 'tideline_staging' ORDER BY 1"
        )
    ]


def test_a_dead_writers_claim_expires_and_its_late_publish_is_refused(ledger, pipeline):
    (stream,) = start_streams(ledger, 1)
    attempt = claim(ledger, batch_id := plan(ledger, {stream: (0, 10)}))
    stage(ledger, attempt)
    assert flow.upkeep(ledger, pipeline) == []
    fall_silent(ledger)
    said = flow.upkeep(ledger, pipeline)
    assert said[0].startswith(f"{PIPELINE} batch {batch_id} attempt 1: silent for 3600 s")
    assert query(ledger, "SELECT state::text FROM tideline.batch") == [(BatchState.FAILED,)]
    with pytest.raises(SupersededError):
        publish(ledger, attempt)


def test_staging_of_the_dead_goes_and_that_of_the_living_stays(ledger, pipeline):
    one, two = start_streams(ledger, 2)
    dead = published(ledger, {one: (0, 10)})
    attempt = claim(ledger, plan(ledger, {two: (0, 10)}))
    stage(ledger, attempt)
    gone = staging_table(ledger, dead, 1)
    query(ledger, f"CREATE TABLE tideline_staging.{gone}_deleted (id bigint)")
    stays = staging_table(ledger, attempt.batch_id, 1)
    assert flow.upkeep(ledger, pipeline) == [f"tideline_staging.{gone}{part}: dropped" for part in ("", "_deleted")]
    assert tables(ledger) == [stays]
    publish(ledger, attempt)


def test_staging_of_another_pipeline_is_left_alone(ledger, pipeline):
    (stream,) = start_streams(ledger, 1)
    table = staging_table(ledger, published(ledger, {stream: (0, 10)}), 1)
    assert flow.upkeep(ledger, pipeline.model_copy(update={"name": "another"})) == []
    assert tables(ledger) == [table]


def test_staged_rows_of_a_superseded_attempt_go(ledger, pipeline):
    (stream,) = start_streams(ledger, 1)
    batch_id = plan(ledger, {stream: (0, 10)})
    stage(ledger, claim(ledger, batch_id))
    second = claim(ledger, batch_id)
    stage(ledger, second)
    assert flow.upkeep(ledger, pipeline) == [f"{PIPELINE}: 1 staged counts and rejects of dead attempts deleted"]
    publish(ledger, second)


def test_a_table_that_an_orphan_holds_stays_and_is_named(ledger, ledger_url, pipeline):
    (stream,) = start_streams(ledger, 1)
    table = staging_table(ledger, published(ledger, {stream: (0, 10)}), 1)
    with Ledger(ledger_url, actor="orphan") as orphan, orphan.transaction():
        orphan.connection.cursor().execute(f"LOCK TABLE tideline_staging.{table}")
        query(ledger, "SET lock_timeout = '200ms'")
        [said] = flow.upkeep(ledger, pipeline)
    assert said.startswith(f"tideline_staging.{table}: stays for now")
    assert flow.upkeep(ledger, pipeline) == [f"tideline_staging.{table}: dropped"]


def test_old_events_of_finished_work_go_and_coverage_stays(ledger, pipeline):
    (stream,) = start_streams(ledger, 1)
    done = published(ledger, {stream: (0, 10)})
    flow.advance(ledger, PIPELINE, RUN)
    opened = plan(ledger, {stream: (10, 20)})
    backdate(ledger)
    before = query(ledger, "SELECT * FROM tideline.coverage")
    assert flow.upkeep(ledger, pipeline) == []
    [said] = flow.upkeep(ledger, with_events_of(pipeline, 30))
    assert "events older than 30 days deleted" in said
    assert query(ledger, "SELECT DISTINCT batch_id FROM tideline.event WHERE batch_id IS NOT NULL") == [(opened,)]
    assert query(ledger, "SELECT * FROM tideline.coverage") == before
    assert query(ledger, "SELECT state::text FROM tideline.batch WHERE batch_id = %s", done) == [(BatchState.ADVANCED,)]


def test_young_events_stay(ledger, pipeline):
    (stream,) = start_streams(ledger, 1)
    published(ledger, {stream: (0, 10)})
    before = query(ledger, "SELECT * FROM tideline.event")
    assert flow.upkeep(ledger, with_events_of(pipeline, 1)) == []
    assert query(ledger, "SELECT * FROM tideline.event") == before


def backdate(ledger):
    """Set all events to last year. Only a test can: the trigger refuses every change."""
    query(ledger, "ALTER TABLE tideline.event DISABLE TRIGGER event_is_append_only")
    query(ledger, "UPDATE tideline.event SET at = at - interval '400 days'")
    query(ledger, "ALTER TABLE tideline.event ENABLE TRIGGER event_is_append_only")
