"""A state that must not be visible even for a moment is found if the watch looks often enough."""

from contextlib import closing

import psycopg2
import pytest

from faults.checker import Watch, watch
from faults.checker.healthy import NAME, TABLE, Loads, carry_out_everything
from given_ledger import ledgers
from given_topics.topics import until
from tideline.ledger.connection import Ledger


@pytest.fixture
def url(postgres, busy):
    """Provide a copy of the database for each test."""
    with ledgers.copy_of(postgres, busy.url.rpartition("/")[2]) as name:
        yield name


def run(url, *statements):
    """Execute statements with triggers switched off."""
    with closing(psycopg2.connect(url)) as connection, connection, connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        for statement in statements:
            cursor.execute(statement)


class Watched(Loads):
    """Loads whose runs wait until the watch has looked again: how often it looks in a second depends on the machine."""

    def __init__(self, ledger, seen):
        super().__init__(ledger)
        self._seen = seen

    def run(self, *arguments):
        done, before = super().run(*arguments), self._seen.looks
        until(lambda: self._seen.looks > before)
        return done


def test_a_ledger_that_is_lived_in_breaks_no_law_at_any_moment(ledger, ledger_url):
    with watch(ledger_url, NAME, TABLE, every=0.005) as seen:
        carry_out_everything(Watched(ledger, seen))
    assert seen.violations == []
    assert seen.looks > 5


BACK = {
    ("head moved back", "ads/1"): """
        UPDATE tideline.stream SET next_offset = 12 WHERE stream_id = 5;
        DELETE FROM tideline.event WHERE action = 'move head' AND stream_id = 5;
        INSERT INTO tideline.event (action, pipeline, stream_id, detail) VALUES ('move head', 'harness', 5, '{"from": 0, "to": 12}');
        UPDATE tideline.batch SET state = 'published' WHERE batch_id = 25;
        DELETE FROM tideline.event WHERE batch_id = 25 AND to_state = 'advanced'""",
    ("fence", "batch 28"): """
        UPDATE tideline.batch SET fence = 0, attempt = NULL, state = 'planned' WHERE batch_id = 28;
        DELETE FROM tideline.attempt WHERE batch_id = 28;
        DELETE FROM tideline.event WHERE batch_id = 28 AND to_state = 'writing'""",
    ("illegal transition", "batch 25"): """
        UPDATE tideline.batch SET state = 'failed' WHERE batch_id = 25""",
    ("forgotten", "stream 1"): """
        DELETE FROM tideline.coverage WHERE batch_id = 8; DELETE FROM ads.output WHERE tideline_batch = 8;
        DELETE FROM tideline.reject WHERE batch_id = 8;
        UPDATE tideline.batch SET state = 'abandoned' WHERE batch_id = 8""",
}
"""Expected violation -> statements. Afterwards the ledger is consistent or nearly so, but it has lost what it had before."""


@pytest.mark.parametrize("what", BACK, ids=str)
def test_what_goes_back_is_seen(url, what):
    with closing(Watch(url, NAME, TABLE)) as seen:
        assert seen.look()
        assert seen.violations == []
        run(url, BACK[what])
        assert seen.look()
    assert any((violation.law, what[1] in violation.where) == (what[0], True) for violation in seen.violations)


def test_the_laws_of_the_ledger_are_looked_at_each_time(url):
    with closing(Watch(url, NAME, TABLE)) as seen:
        run(url, "DELETE FROM tideline.coverage WHERE stream_id = 1 AND offsets = '[50, 53)'")
        seen.look()
    assert [violation.law for violation in seen.violations] == ["gap"]


def test_an_aborted_read_is_seen(url):
    """Plant a row, and then a reject, of a batch that is being written."""
    row = "SELECT 1, 0, 'x', 1, topic_id, partition, 33, 28 FROM tideline.stream WHERE stream_id = 4"
    with closing(Watch(url, NAME, TABLE)) as seen:
        seen.look()
        run(url, f"INSERT INTO ads.output {row}")
        seen.look()
        run(url, "DELETE FROM ads.output WHERE tideline_batch = 28")
        reject = "SELECT 4, 34, 28, 'decode', 'x', attempt_id FROM tideline.attempt WHERE batch_id = 28"
        run(url, f"INSERT INTO tideline.reject (stream_id, kafka_offset, batch_id, step, reason, attempt_id) {reject}")
        seen.look()
    assert [(violation.law, violation.where) for violation in seen.violations] == [
        ("unpublished", "ads/0 offset 33"),
        ("unpublished", "ads/0 offset 34"),
    ]


def test_a_batch_of_which_a_reader_sees_a_part_is_seen(url):
    """Delete and insert in two commits, as if rows and state were not one transaction."""
    some = "tideline_batch = 30 AND kafka_offset < 60"
    with closing(Watch(url, NAME, TABLE)) as seen:
        run(url, f"CREATE TABLE later AS SELECT * FROM ads.output WHERE {some}", f"DELETE FROM ads.output WHERE {some}")
        seen.look()
        run(url, "INSERT INTO ads.output SELECT * FROM later")
    assert [(violation.law, violation.where.split(" in ")[0]) for violation in seen.violations] == [
        ("miscounted", "batch 30")
    ]


PLAN_A_REPLAY = """
INSERT INTO tideline.batch (pipeline, kind, dag_id, run_id, seq) VALUES ('harness', 'replay', 'd', 'r', 0);
INSERT INTO tideline.event (action, pipeline, batch_id, to_state) SELECT 'plan', 'harness', max(batch_id), 'planned' FROM tideline.batch;
INSERT INTO tideline.batch_range (batch_id, stream_id, offsets, gaps_allowed, reserves, planned_log_start, planned_end)
    SELECT max(batch_id), 1, '[44, 46)', false, false, 0, 90 FROM tideline.batch"""


def test_a_range_that_is_empty_while_a_replay_is_under_way_is_seen(url):
    with closing(Watch(url, NAME, TABLE)) as seen:
        seen.look()
        run(url, PLAN_A_REPLAY)
        seen.look()
        assert seen.violations == []
        run(url, "DELETE FROM ads.output WHERE tideline_batch = 9 AND kafka_offset IN (44, 45)")
        seen.look()
    assert {violation.law for violation in seen.violations} == {"miscounted"}


def test_a_server_that_goes_away_is_looked_at_again(url):
    with closing(Watch(url, NAME, TABLE)) as seen:
        assert seen.look()
        run(url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'watch'")
        assert not seen.look()
        run(url, "UPDATE tideline.stream SET next_offset = 79 WHERE stream_id = 1")
        assert seen.look()
    assert {violation.law for violation in seen.violations} == {"head moved back", "head history"}


def test_a_watch_that_cannot_look_fails(url):
    run(url, "ALTER TABLE tideline.stream RENAME TO river")
    with pytest.raises(psycopg2.errors.UndefinedTable), watch(url, NAME, TABLE):
        pass


def test_a_ledger_is_watched_before_there_is_an_output(ledger_url):
    with Ledger(ledger_url, actor="test"), watch(ledger_url, NAME, TABLE) as seen:
        pass
    assert (seen.looks, seen.violations) == (1, [])
