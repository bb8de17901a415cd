"""Claims of outputs: the ledger knows which pipeline writes where. Two share an output only if both declare it, and none moves silently."""

from contextlib import contextmanager

import pytest

from given_ledger.ledgers import claim as claimed
from given_ledger.ledgers import plan, publish, query, refused, stage, start_streams, wait_for_a_lock
from given_ledger.planners import declared
from given_ledger.planners import plan as planned
from given_topics.topics import produce
from loads.loading import TARGET
from servers import cli_process
from servers.concurrency import beside
from tideline import flow
from tideline.declaration import PostgresSink, Rejects
from tideline.declaration.delta import DeltaSink
from tideline.declaration.kafka_sink import KafkaSink
from tideline.declaration.sections import FromEnvironment
from tideline.deployment import secret
from tideline.errors import FatalError, RetryableError
from tideline.kafka.broker import Broker
from tideline.ledger import claimed_outputs, reservations
from tideline.ledger.claimed_outputs import REJECTS, ROWS, ClaimedOutput
from tideline.ledger.connection import Ledger
from tideline.reports.checks import ledger as ledger_checks
from tideline.statements import statement

TABLE = "ads.output"


@contextmanager
def claiming(ledger, pipeline: str, *, table: str = TABLE, shared: bool = False):
    """Open a transaction in which a pipeline has claimed a table."""
    with ledger.transaction():
        reservations.lock_pipeline(ledger, pipeline)
        claimed_outputs.claim(
            ledger, pipeline, [ClaimedOutput(purpose=ROWS, kind="postgres", place=table, shared=shared)]
        )
        yield


def claim(ledger, pipeline: str, *, table: str = TABLE, shared: bool = False) -> None:
    with claiming(ledger, pipeline, table=table, shared=shared):
        pass


def tables(ledger) -> dict[str, tuple[str, bool]]:
    return {
        row[0]: (row[1], row[2]) for row in query(ledger, "SELECT pipeline, place, shared FROM tideline.claimed_output")
    }


@pytest.mark.parametrize(("first", "second"), [(False, False), (True, False), (False, True)])
def test_a_table_is_shared_by_consent_of_both(ledger, first, second):
    claim(ledger, "one", shared=first)
    with pytest.raises(FatalError) as caught:
        claim(ledger, "two", shared=second)
    assert "two: expected table ads.output for itself, found that pipeline one writes it as well" in str(caught.value)
    undeclared = " and ".join(name for name, said in (("two", second), ("one", first)) if not said)
    assert f"sink.shared: true in {undeclared} and" in caught.value.next_step
    assert "tideline free-output one" in caught.value.next_step
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
    insert = "INSERT INTO tideline.claimed_output (pipeline, purpose, kind, place, shared) VALUES ('{}', 'rows', 'postgres', 'ads.output', {})"
    query(ledger, insert.format("one", first))
    assert "outputs_are_shared_by_consent" in refused(ledger, insert.format("two", second))


def test_of_two_that_claim_a_table_at_once_one_gets_it_and_the_other_can_retry(ledger, ledger_url):
    with Ledger(ledger_url, actor="second") as second:
        with claiming(ledger, "one"):
            waiting = beside(lambda: claim(second, "two"))
            wait_for_a_lock(ledger_url)
        with pytest.raises(RetryableError, match=r"another pipeline has just claimed table ads\.output"):
            waiting()
        with pytest.raises(FatalError, match="pipeline one writes it"):
            claim(second, "two")


def test_a_pipeline_that_has_loaded_nothing_leaves_its_table_free_when_it_declares_another_one(ledger):
    claim(ledger, "one")
    claim(ledger, "one", table="ads.other")
    claim(ledger, "two")
    assert tables(ledger) == {"one": ("ads.other", False), "two": (TABLE, False)}
    claims = query(
        ledger,
        "SELECT pipeline, detail FROM tideline.event WHERE action IN ('claim output', 'move output') ORDER BY event_id",
    )
    about = {"purpose": "rows", "kind": "postgres", "shared": False}
    moved = {**about, "from_kind": "postgres", "from_place": TABLE, "place": "ads.other"}
    assert claims == [("one", {**about, "place": TABLE}), ("one", moved), ("two", {**about, "place": TABLE})]


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
        flow.free_output(ledger, "impressions", reason="given up")
    assert "batches of it are open" in refused(ledger, "DELETE FROM tideline.claimed_output")
    flow.abandon(ledger, batch_id, reason="given up")
    with pytest.raises(FatalError, match="needs a reason"):
        flow.free_output(ledger, "impressions", reason=" ")
    assert flow.free_output(ledger, "impressions", reason="given up") == [f"table {TABLE}"]
    claim(ledger, "two")
    assert query(ledger, "SELECT detail FROM tideline.event WHERE action = 'free output'") == [
        ({"purpose": "rows", "kind": "postgres", "place": TABLE, "reason": "given up"},)
    ]
    with pytest.raises(FatalError, match="expected an output that it writes, found none"):
        flow.free_output(ledger, "impressions", reason="given up")
    with pytest.raises(FatalError, match="that the ledger knows, found 'Unknown'"):
        flow.free_output(ledger, "Unknown", reason="given up")


def test_the_command_frees_a_table_and_doctor_names_who_has_it(cli, ledger):
    claim(ledger, "gone")
    found = {
        (check["about"], check["check"]): check for check in cli.json("doctor", cli_process.NAME, code=30)["checks"]
    }
    assert found[cli_process.NAME, "claims"]["found"] == "table ads.output is written by pipeline gone as well"
    assert cli.error("free-output", "unknown", "--reason", "x", code=20)["entry"] == "no-such-pipeline"
    assert cli("free-output", "gone", "--reason", "given up").stdout == "table ads.output: free; its rows stay\n"
    assert tables(ledger) == {}


def test_the_command_moves_an_output_and_doctor_says_that_it_has_moved(cli, ledger):
    name = cli_process.NAME
    (stream,) = start_streams(ledger, 1, pipeline=name)
    nothing = "it has no output in the ledger yet, and its next plan claims table ads.output; nothing was changed"
    assert cli("move-output", name, "--reason", "a test").stdout == f"{name}: {nothing}\n"
    claim(ledger, name, table="ads.older")
    moved = "it has claimed table ads.older, its declaration names table ads.output"
    assert claims_of(cli, name) == ("ok", f"{moved}; it has loaded nothing, so its next plan moves the claim")
    attempt = claimed(ledger, plan(ledger, {stream: (0, 10)}, pipeline=name))
    stage(ledger, attempt)
    publish(ledger, attempt)
    assert claims_of(cli, name) == ("warn", moved)
    said = "moved from table ads.older to table ads.output; what is in the former one stays there\n"
    assert cli("move-output", name, "--reason", "a test", "--dry-run").stdout == f"{name}: would be {said}"
    assert tables(ledger) == {name: ("ads.older", False)}
    assert cli("move-output", name, "--reason", "a test").stdout == f"{name}: {said}"
    same = f"{name}: table ads.output is its output; nothing was changed\n"
    assert cli("move-output", name, "--reason", "a test").stdout == same
    assert tables(ledger) == {name: (TABLE, False)}


def claims_of(cli, name) -> tuple[str, str]:
    """Return the verdict of doctor's check of a pipeline's claims, and what it has found."""
    checks = {(check["about"], check["check"]): check for check in cli.json("doctor", name, code=30)["checks"]}
    return checks[name, "claims"]["verdict"], checks[name, "claims"]["found"]


def declaring(pipeline, table: str):
    """Return the pipeline as another deployment declares it."""
    return pipeline.model_copy(update={"sink": PostgresSink(table=table)})


def test_two_deployments_that_declare_one_pipeline_with_different_tables_do_not_load_them_in_turns(
    broker, topic, ledger, ledger_url
):
    produce(broker, topic, 3)
    one = declared(broker.bootstrap, topic, name="one")
    (batch_id,) = planned(ledger_url, one, "first")
    attempt = claimed(ledger, batch_id)
    moved = r"expected table ads\.output, which it loads, found that its declaration names table ads\.theirs"
    theirs = "UPDATE tideline.claimed_output SET place = 'ads.theirs'"
    with pytest.raises(FatalError, match=moved):
        planned(ledger_url, declaring(one, "ads.theirs"), "second")
    assert "a batch of it is being written" in refused(ledger, f"SET LOCAL tideline.reason = 'mine'; {theirs}")
    stage(ledger, attempt)
    publish(ledger, attempt)
    with pytest.raises(FatalError, match=moved) as caught:
        planned(ledger_url, declaring(one, "ads.theirs"), "second")
    assert caught.value.entry == "output-has-moved"
    assert "tideline move-output one --reason ...; if not, correct section sink, also in another deployment" in str(
        caught.value
    )
    assert tables(ledger) == {"one": (TABLE, False)}
    assert "does not move without a reason" in refused(ledger, theirs)


def test_a_decision_moves_an_output_and_frees_the_former_one(broker, topic, ledger, ledger_url):
    produce(broker, topic, 3)
    one = declared(broker.bootstrap, topic, name="one")
    (batch_id,) = planned(ledger_url, one, "first")
    moved, source = declaring(one, "ads.moved"), Broker(one.source)
    claimed(ledger, batch_id)
    with pytest.raises(FatalError, match=f"that is being written, found {batch_id}"):
        flow.move_output(ledger, source, moved, reason="partitioned")
    flow.abandon(ledger, batch_id, reason="given up", force=True)
    planned(ledger_url, one, "second")
    with pytest.raises(FatalError, match="needs a reason"):
        flow.move_output(ledger, source, moved, reason=" ")
    claim(ledger, "two", table="ads.theirs")
    with pytest.raises(FatalError, match=r"table ads\.theirs for itself, found that pipeline two"):
        flow.move_output(ledger, source, declaring(one, "ads.theirs"), reason="partitioned")
    wanted = (f"table {TABLE}", "table ads.moved")
    assert flow.move_output(ledger, source, moved, reason="partitioned", dry_run=True) == wanted
    assert tables(ledger)["one"] == (TABLE, False)
    assert flow.move_output(ledger, source, moved, reason="partitioned") == wanted
    assert flow.move_output(ledger, source, moved, reason="partitioned") == ("table ads.moved", "table ads.moved")
    ((detail,),) = query(ledger, "SELECT detail FROM tideline.event WHERE action = 'move output'")
    assert (detail["from_place"], detail["place"], detail["reason"]) == (TABLE, "ads.moved", "partitioned")
    assert len(planned(ledger_url, moved, "third")) == 1
    claim(ledger, "three")
    with pytest.raises(FatalError, match="that the ledger knows, found 'unheard'"):
        flow.move_output(ledger, source, moved.model_copy(update={"name": "unheard"}), reason="partitioned")


def places(pipeline, broker) -> list[tuple[str, str, str, bool]]:
    return [(one.purpose, one.kind, one.place, one.shared) for one in flow.outputs(pipeline, Broker(pipeline.source))]


def test_an_output_is_claimed_by_its_real_place(broker, topic, tmp_path, monkeypatch):
    one = declared(broker.bootstrap, topic, name="one")
    cluster = Broker(one.source).cluster_id()
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.setenv("LAKE", f"{tmp_path}/link/events/")
    monkeypatch.setenv("STORE", f"http://user:{secret.marked('store')}@Store.local:9000/")
    store = {"aws_endpoint_url": FromEnvironment(env="STORE")}
    for sink, place in (
        (DeltaSink(kind="delta", path=f"{tmp_path}/real/events"), f"{tmp_path}/real/events"),
        (DeltaSink(kind="delta", path=FromEnvironment(env="LAKE"), shared=True), f"{tmp_path}/real/events"),
        (DeltaSink(kind="delta", path="s3://bucket/events/"), "s3://bucket/events"),
        (DeltaSink(kind="delta", path="s3://bucket/events", storage=store), "s3://bucket/events at store.local:9000"),
        (KafkaSink(kind="kafka", topic="out"), f"{cluster}/out"),
        (KafkaSink(kind="kafka", topic="out", bootstrap_servers=broker.bootstrap), f"{cluster}/out"),
    ):
        pipeline = one.model_copy(update={"sink": sink})
        assert places(pipeline, broker) == [(ROWS, sink.kind, place, sink.shared)]
    rejecting = one.model_copy(update={"rejects": Rejects(topic="out")})
    assert places(rejecting, broker)[1:] == [(REJECTS, "kafka", f"{cluster}/out", True)]
    assert len(places(rejecting.model_copy(update={"sink": KafkaSink(kind="kafka", topic="out")}), broker)) == 1


@pytest.mark.parametrize("kind", ["delta", "kafka"])
def test_a_plan_refuses_a_lake_or_a_topic_that_another_pipeline_writes(broker, topic, ledger_url, tmp_path, kind):
    produce(broker, topic, 3)

    def sink(*, shared: bool):
        if kind == "delta":
            return DeltaSink(kind="delta", path=str(tmp_path), shared=shared)
        return KafkaSink(kind="kafka", topic=f"{topic}_out", shared=shared)

    one, two = (
        declared(broker.bootstrap, topic, name=name).model_copy(update={"sink": sink(shared=False)})
        for name in ("one", "two")
    )
    assert len(planned(ledger_url, one, "first")) == 1
    with pytest.raises(FatalError, match=r"for itself, found that pipeline one writes it as well"):
        planned(ledger_url, two, "first")
    rejecting = declared(broker.bootstrap, topic, name="two").model_copy(
        update={"rejects": Rejects(topic=f"{topic}_out")}
    )
    if kind == "kafka":
        with pytest.raises(FatalError, match=r"for rejects, found that pipeline one writes it as well"):
            planned(ledger_url, rejecting, "first")
    shared = [pipeline.model_copy(update={"sink": sink(shared=True)}) for pipeline in (one, two)]
    assert [len(planned(ledger_url, pipeline, "second")) for pipeline in shared] == [1, 1]


def rejecting_into(pipeline, topic: str):
    """Return the pipeline with a topic of rejects."""
    return pipeline.model_copy(update={"rejects": Rejects(topic=topic)})


def test_a_topic_of_rejects_that_is_not_declared_any_more_is_free_for_others(broker, topic, ledger, ledger_url):
    produce(broker, topic, 3)
    one, two = (declared(broker.bootstrap, topic, name=name) for name in ("one", "two"))
    two = two.model_copy(update={"sink": KafkaSink(kind="kafka", topic=f"{topic}_bad")})
    assert len(planned(ledger_url, rejecting_into(one, f"{topic}_bad"), "first")) == 1
    with pytest.raises(FatalError, match=r"for itself, found that pipeline one writes it as well"):
        planned(ledger_url, two, "first")
    planned(ledger_url, rejecting_into(one, f"{topic}_worse"), "second")  # its batch is open, the topic is free anyway
    assert len(planned(ledger_url, two, "second")) == 1
    planned(ledger_url, one, "third")
    assert query(ledger, "SELECT pipeline FROM tideline.claimed_output WHERE purpose = 'rejects'") == []


@pytest.mark.parametrize("loaded", [False, True])
def test_the_rows_of_a_pipeline_can_go_to_what_was_its_topic_of_rejects(broker, topic, ledger, ledger_url, loaded):
    produce(broker, topic, 3)
    one = rejecting_into(declared(broker.bootstrap, topic, name="one"), f"{topic}_out")
    (batch_id,) = planned(ledger_url, one, "first")
    moved = one.model_copy(update={"sink": KafkaSink(kind="kafka", topic=f"{topic}_out")})
    source = Broker(one.source)
    with ledger.transaction():
        (check,) = ledger_checks.claims(ledger, "one", flow.outputs(moved, source))
    assert "its next plan moves the claim" in check.found, "doctor does not name the pipeline itself"
    if loaded:
        attempt = claimed(ledger, batch_id)
        stage(ledger, attempt)
        publish(ledger, attempt)
        produce(broker, topic, 3)
        flow.move_output(ledger, source, moved, reason="all records together")
    assert len(planned(ledger_url, moved, "second")) == 1
    place = f"{source.cluster_id()}/{topic}_out"
    assert query(ledger, "SELECT purpose, place FROM tideline.claimed_output") == [(ROWS, place)]


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
        text = statement("tideline.sinks.postgres", "delete_replaced").replace("{target}", TABLE)
        cursor.execute(f"EXPLAIN (FORMAT JSON) {text}", {"batch_id": batch_id})
        ((explained,),) = cursor.fetchall()
    nodes = list(nodes_of(explained[0]["Plan"]))
    assert {node["Relation Name"] for node in nodes if node["Node Type"] == "Seq Scan"} <= {"stream"}
    assert "output_pkey" in {node.get("Index Name") for node in nodes}


def nodes_of(node):
    yield node
    for child in node.get("Plans", ()):
        yield from nodes_of(child)
