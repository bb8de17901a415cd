"""Claims of tables: the ledger knows which pipeline writes which table, so two pipelines share a table only if both declare it."""

from contextlib import contextmanager

import pytest

import cli_process
from concurrency import beside
from ledger_queries import query, refused
from ledgers import plan, start_streams, wait_for_a_lock
from loading import TARGET
from planners import declared
from planners import plan as planned
from tideline import flow
from tideline.declaration import PostgresSink
from tideline.errors import FatalError, RetryableError
from tideline.ledger import output_tables, reservations
from tideline.ledger.connection import Ledger, statement
from topics import produce

TABLE = "ads.output"


@contextmanager
def claiming(ledger, pipeline: str, *, table: str = TABLE, shared: bool = False):
    """Open a transaction in which a pipeline has claimed a table."""
    with ledger.transaction():
        reservations.lock_pipeline(ledger, pipeline)
        output_tables.claim(ledger, pipeline, table, shared=shared)
        yield


def claim(ledger, pipeline: str, *, table: str = TABLE, shared: bool = False) -> None:
    with claiming(ledger, pipeline, table=table, shared=shared):
        pass


def tables(ledger) -> dict[str, tuple[str, bool]]:
    return {
        row[0]: (row[1], row[2])
        for row in query(ledger, "SELECT pipeline, table_name, shared FROM tideline.output_table")
    }


@pytest.mark.parametrize(("first", "second"), [(False, False), (True, False), (False, True)])
def test_a_table_is_shared_by_consent_of_both(ledger, first, second):
    claim(ledger, "one", shared=first)
    with pytest.raises(FatalError) as caught:
        claim(ledger, "two", shared=second)
    assert "two: expected table ads.output for itself, found that pipeline one writes it as well" in str(caught.value)
    undeclared = " and ".join(name for name, said in (("two", second), ("one", first)) if not said)
    assert f"sink.shared: true in {undeclared} and" in caught.value.next_step
    assert "tideline free-table one" in caught.value.next_step
    assert tables(ledger) == {"one": (TABLE, first)}
    claim(ledger, "one", shared=True)
    claim(ledger, "two", shared=True)
    claim(ledger, "three", table="ads.other")
    with pytest.raises(FatalError, match="pipeline two writes it"):
        claim(ledger, "one")
    assert tables(ledger) == {"one": (TABLE, True), "two": (TABLE, True), "three": ("ads.other", False)}


@pytest.mark.parametrize(("first", "second"), [("false", "false"), ("true", "false"), ("false", "true")])
def test_postgres_itself_keeps_a_table_for_those_who_share_it(ledger, first, second):
    start_streams(ledger, 1, pipeline="one")
    start_streams(ledger, 1, pipeline="two")
    insert = "INSERT INTO tideline.output_table (pipeline, table_name, shared) VALUES ('{}', 'ads.output', {})"
    query(ledger, insert.format("one", first))
    assert "tables_are_shared_by_consent" in refused(ledger, insert.format("two", second))


def test_of_two_that_claim_a_table_at_once_one_gets_it_and_the_other_can_retry(ledger, ledger_url):
    with Ledger(ledger_url, actor="second") as second:
        with claiming(ledger, "one"):
            waiting = beside(lambda: claim(second, "two"))
            wait_for_a_lock(ledger_url)
        with pytest.raises(RetryableError, match=r"another pipeline has just claimed table ads\.output"):
            waiting()
        with pytest.raises(FatalError, match="pipeline one writes it"):
            claim(second, "two")


def test_a_pipeline_that_declares_another_table_leaves_the_first_one_free(ledger):
    claim(ledger, "one")
    claim(ledger, "one", table="ads.other")
    claim(ledger, "two")
    assert tables(ledger) == {"one": ("ads.other", False), "two": (TABLE, False)}
    claims = query(ledger, "SELECT pipeline, detail FROM tideline.event WHERE action = 'claim table' ORDER BY event_id")
    claimed = [("one", TABLE), ("one", "ads.other"), ("two", TABLE)]
    assert claims == [(name, {"table": table, "shared": False}) for name, table in claimed]


def test_plan_refuses_a_table_of_another_pipeline_and_names_both(broker, topic, ledger, ledger_url):
    produce(broker, topic, 3)
    one, two = (declared(broker.bootstrap, topic, name=name) for name in ("one", "two"))
    assert len(planned(ledger_url, one, "first")) == 1
    with pytest.raises(
        FatalError, match=r"two: expected table ads\.output for itself, found that pipeline one writes it"
    ):
        planned(ledger_url, two, "first")
    assert query(ledger, "SELECT pipeline FROM tideline.batch") == [("one",)]
    shared = [pipeline.model_copy(update={"sink": PostgresSink(table=TABLE, shared=True)}) for pipeline in (one, two)]
    assert [len(planned(ledger_url, pipeline, "second")) for pipeline in shared] == [1, 1]


def test_a_table_is_freed_when_nothing_can_be_written_into_it_any_more(ledger):
    (stream,) = start_streams(ledger, 1)
    batch_id = plan(ledger, {stream: (0, 10)})
    claim(ledger, "impressions")
    with pytest.raises(FatalError, match=f"expected no open batches, found {batch_id}"):
        flow.free_table(ledger, "impressions", reason="given up")
    assert "batches of it are open" in refused(ledger, "DELETE FROM tideline.output_table")
    flow.abandon(ledger, batch_id, reason="given up")
    with pytest.raises(FatalError, match="needs a reason"):
        flow.free_table(ledger, "impressions", reason=" ")
    assert flow.free_table(ledger, "impressions", reason="given up") == TABLE
    claim(ledger, "two")
    assert query(ledger, "SELECT detail FROM tideline.event WHERE action = 'free table'") == [
        ({"table": TABLE, "reason": "given up"},)
    ]
    with pytest.raises(FatalError, match="expected a table that it writes, found none"):
        flow.free_table(ledger, "impressions", reason="given up")
    with pytest.raises(FatalError, match="that the ledger knows, found 'Unknown'"):
        flow.free_table(ledger, "Unknown", reason="given up")


def test_the_command_frees_a_table_and_doctor_names_who_has_it(cli, ledger):
    claim(ledger, "gone")
    found = {
        (check["about"], check["check"]): check for check in cli.json("doctor", cli_process.NAME, code=30)["checks"]
    }
    assert found[cli_process.NAME, "output"]["found"] == "ads.output is written by pipeline gone as well"
    assert cli.error("free-table", "unknown", "--reason", "x", code=20)["entry"] == "no-such-pipeline"
    assert cli("free-table", "gone", "--reason", "given up").stdout == "ads.output: free; its rows stay\n"
    assert tables(ledger) == {}


def test_a_replay_deletes_by_the_index_of_the_key_however_much_the_table_holds(ledger):
    """The ledger and the table have statistics: neither is read from end to end."""
    (stream,) = start_streams(ledger, 1)
    batch_id = plan(ledger, {stream: (500, 520)})
    with ledger.connection as connection, connection.cursor() as cursor:
        cursor.execute(TARGET)
        cursor.execute(
            "INSERT INTO ads.output SELECT n, NULL, NULL, topic_id, n % 50, n / 50, 1 FROM tideline.stream, generate_series(0, 99999) n"
        )
        cursor.execute(
            "SET session_replication_role = replica;"
            "INSERT INTO tideline.batch (pipeline, kind, dag_id, run_id, seq) SELECT pipeline, kind, dag_id, run_id, n"
            " FROM tideline.batch, generate_series(1, 20000) n;"
            "INSERT INTO tideline.batch_range (batch_id, stream_id, offsets, gaps_allowed, reserves, planned_log_start, planned_end)"
            " SELECT batch_id + n, stream_id, int8range(1000 + 10 * n, 1010 + 10 * n), false, n % 2 = 0, 0, 1000000"
            " FROM tideline.batch_range, generate_series(1, 20000) n;"
            "ANALYZE"
        )
        text = statement("spark_jobs.sinks.postgres", "delete_replaced.sql").replace("{target}", TABLE)
        cursor.execute(f"EXPLAIN (FORMAT JSON) {text}", {"batch_id": batch_id})
        ((explained,),) = cursor.fetchall()
    nodes = list(nodes_of(explained[0]["Plan"]))
    assert {node["Relation Name"] for node in nodes if node["Node Type"] == "Seq Scan"} <= {"stream"}
    assert "output_pkey" in {node.get("Index Name") for node in nodes}


def nodes_of(node):
    yield node
    for child in node.get("Plans", ()):
        yield from nodes_of(child)
