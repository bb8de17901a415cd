"""A batch that is being published keeps no reader of its table and no plan waiting, and another batch only where newest rows win."""

import threading
import time
from contextlib import closing

import psycopg2
import pytest

import records
from given_topics.topics import until
from loads import upserts
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import NamedRange, Ranges

# The transaction that publishes the batch waits in its COMMIT, with everything locked that it locks.
HELD = """
CREATE FUNCTION ads.wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock_shared(42); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER held AFTER INSERT OR UPDATE ON ads.output DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.tideline_batch = {}) EXECUTE FUNCTION ads.wait();
"""
WAITING = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
POLLS, EVERY_S = 100, 0.01
PATIENCE_S = 15
"""Half of what a session of the ledger waits for a lock."""


@pytest.mark.parametrize("what", ["append", "upsert", "replay"])
def test_a_batch_that_is_published_keeps_neither_readers_nor_plans_waiting(loading, what):
    topic = records.create(loading.bootstrap)
    records.produce(loading.bootstrap, topic, map(records.record, range(50)))
    upsert = {"target": upserts.TARGET, "sink": {"mode": "upsert", "key": ["id"]}} if what == "upsert" else {}
    loading.declare(topic, **upsert)
    loading.run()
    records.produce(loading.bootstrap, topic, map(records.record, range(50, 100)))
    again = Ranges(ranges=(NamedRange(topic, 0, OffsetRange(0, 50)),), replace=True) if what == "replay" else None
    batch_ids = loading.plan("held", again, reason="a drill" if again else None)
    loading.execute(HELD.format(*batch_ids))
    publishing = threading.Thread(target=loading.write, args=("held", batch_ids))
    with closing(psycopg2.connect(loading.url)) as holder, holder.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(42)")
        publishing.start()
        until(lambda: loading.rows(WAITING))
        readers_see(loading, 50)
        records.produce(loading.bootstrap, topic, map(records.record, range(100, 110)))
        begun = time.monotonic()
        others = [batch_id for batch_id in loading.plan("other") if batch_id not in batch_ids]
        if what != "upsert":  # batches of such a table are published one after another
            loading.write("other", others)
        assert time.monotonic() - begun < PATIENCE_S
        n_loaded = {"append": 10, "upsert": 0, "replay": 60}[what]  # the replay leaves 50 records for the next run
        readers_see(loading, 50 + n_loaded)
        assert loading.rows(WAITING), "the batch was published meanwhile"
        cursor.execute("SELECT pg_advisory_unlock(42)")
        publishing.join(180)
    if what == "upsert":
        loading.write("other", others)
    readers_see(loading, 110)
    assert not {"planned", "writing", "failed"} & {*loading.states()}


def readers_see(loading, n_rows: int) -> None:
    """Read the table again and again, each time at once."""
    with closing(psycopg2.connect(loading.url)) as reader, reader.cursor() as cursor:
        cursor.execute("SET statement_timeout = '1s'")
        for _ in range(POLLS):
            cursor.execute("SELECT count(*) FROM ads.output")
            assert cursor.fetchall() == [(n_rows,)]
            reader.commit()
            time.sleep(EVERY_S)
