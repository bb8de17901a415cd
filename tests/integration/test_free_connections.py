"""A batch takes no more connections than are left, and fails before it reads anything if there are none."""

from contextlib import ExitStack, closing

import psycopg2
import pytest

import records
from given_ledger import granted_rights
from loads import loading
from loads.loading import Loading
from tideline.errors import RetryableError
from tideline.ledger.connection import Ledger
from tideline.records.task_sessions import opened
from tideline.spark_jobs.readers import task_limits

GRANTS = """
    GRANT USAGE ON SCHEMA ads TO tideline_writer, tideline_operator;
    GRANT SELECT, INSERT, DELETE ON ads.output TO tideline_writer;
    GRANT SELECT, DELETE ON ads.output TO tideline_operator
    """


@pytest.fixture
def warehouse(postgres, monkeypatch):
    with granted_rights.warehouse(postgres) as found:
        monkeypatch.setenv("TIDELINE_LEDGER_URL", found.urls.writer)
        monkeypatch.setenv("TIDELINE_STAGER_URL", found.urls.stager)
        yield found


def n_free(warehouse) -> int:
    with Ledger(warehouse.urls.writer, actor="test") as ledger:
        return task_limits._n_free(ledger)


def test_a_batch_takes_what_the_server_the_database_and_the_role_have_left(warehouse):
    of_server = n_free(warehouse)
    with closing(psycopg2.connect(warehouse.admin)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('max_connections')::int")
        assert 20 < of_server < cursor.fetchall()[0][0] - 3  # superusers have three to themselves
    with ExitStack() as held:
        for _ in range(2):
            held.enter_context(closing(psycopg2.connect(warehouse.urls.stager)))
        warehouse.run("ALTER ROLE tideline_stager CONNECTION LIMIT 9")
        assert n_free(warehouse) == 7
        warehouse.run("ALTER DATABASE warehouse CONNECTION LIMIT 8")
        assert n_free(warehouse) in {4, 5}  # two are held, and the driver has one; autovacuum may look in
        warehouse.run("ALTER ROLE tideline_stager CONNECTION LIMIT 1")
        assert n_free(warehouse) == 0  # 1 - 2


def test_a_batch_without_a_connection_for_a_task_fails_before_it_reads_and_is_loaded_later(
    warehouse, broker, spark, tmp_path, monkeypatch
):
    monkeypatch.setenv("TIDELINE_KAFKA", broker.bootstrap)
    warehouse.run(loading.TARGET, duty="owner")
    warehouse.run(GRANTS, duty="owner")
    urls = warehouse.urls
    loads = Loading(
        folder=tmp_path / "loads", bootstrap=broker.bootstrap, url=urls.operator, writer_url=urls.writer, spark=spark
    )
    topic = records.create(broker.bootstrap)
    loads.declare(topic)
    records.produce(broker.bootstrap, topic, [records.record(1)])
    warehouse.run("ALTER ROLE tideline_stager CONNECTION LIMIT 1")
    with pytest.raises(
        RetryableError, match="each task needs 2 connections with the ledger, and its server has 1 left"
    ) as caught:
        loads.run()
    assert caught.value.entry == "no-free-connections"
    assert loads.rows("SELECT count(*) FROM tideline.staged_count") == [(0,)]
    warehouse.run("ALTER ROLE tideline_stager CONNECTION LIMIT -1")
    loads.run()
    assert loads.counts()["n_written"] == 1


@pytest.mark.parametrize("opening", [lambda url: Ledger(url, actor="test"), opened], ids=["ledger", "task"])
def test_a_server_without_a_free_connection_is_named(warehouse, opening):
    warehouse.run("ALTER ROLE tideline_stager CONNECTION LIMIT 0")
    with pytest.raises(RetryableError, match=r"has no free connection: .*too many connections for role") as caught:
        opening(warehouse.urls.stager)
    assert caught.value.entry == "no-free-connections"
