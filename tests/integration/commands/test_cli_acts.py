"""The commands that change something: each does what its verb does, reports it, and leaves actor and reason in the history."""

from dataclasses import replace

import pytest
from confluent_kafka import TopicPartition

from given_ledger import ledgers, planners
from given_ledger.ledgers import query, state
from given_topics import topics
from servers import cli_process
from servers.cli_process import NAME, table
from tideline.deployment import secret
from tideline.errors import NeedsOperatorError
from tideline.ledger import attempts

WHY = "prices were in cents"


def reasons(ledger, action: str) -> list[tuple[str, str]]:
    """Return (actor, reason) of each event of that action, in order."""
    return query(
        ledger, "SELECT actor, detail ->> 'reason' FROM tideline.event WHERE action = %s ORDER BY event_id", action
    )


def test_a_replayed_batch_is_replaced_by_a_new_one(cli, ledger, broker, topic):
    topics.produce(broker, topic, 5)
    old = cli_process.load(cli, ledger)
    done = cli("replay", NAME, "--batch", str(old), "--reason", WHY)
    new = old + 1
    assert done.stdout.splitlines() == [
        f"batch {new} (replay): {topic}/0 [0, 5)",
        f"batch {new} is written by a run of DAG {NAME} that is triggered with `load`: a batch, `batch_id`: {new}",
    ]
    batch = cli.json("batch", str(new))
    assert (batch["kind"], batch["state"], batch["reason"], batch["supersedes"]) == ("replay", "planned", WHY, old)
    assert batch["run_id"].startswith("cli ada@tower 20")
    assert reasons(ledger, "plan")[-1] == ("cli ada@tower", WHY)
    planners.finish(ledger, [new])
    assert "Owns now: nothing" in cli("batch", str(old)).stdout
    assert [row["state"] for row in cli.json("batches", NAME)["batches"]] == ["published", "superseded"]


def test_a_range_or_a_window_is_replayed_and_the_rest_keeps_its_owner(cli, ledger, broker, topic):
    topics.produce(broker, topic, 5, timestamp=1_700_000_000_000)
    topics.produce(broker, topic, 5, timestamp=1_700_003_600_000)
    old = cli_process.load(cli, ledger)
    document = cli.json("replay", NAME, "--range", f"{topic}/0 [2, 4)", "--reason", WHY, "--no-start")
    (new,) = document["batch_ids"]
    assert document["runs"] == [{"batch_id": new, "url": None, "dag_is_paused": None}]
    assert (document["pipeline"], document["notes"]) == (NAME, [])
    planners.finish(ledger, [new])
    owned = [(row["start_offset"], row["end_offset"]) for row in cli.json("batch", str(old))["owns"]]
    assert owned == [(0, 2), (4, 10)]
    window = ["--from", "2023-11-14T23:00:00Z", "--to", "2023-11-15T01:00:00+01:00"]
    (again,) = cli.json("replay", NAME, *window, "--reason", WHY)["batch_ids"]
    assert planners.ranges_of(ledger, again) == {0: (5, 10)}


def test_what_lies_before_a_start_can_be_filled_in(cli, ledger, broker, topic):
    cli.declare(NAME, topic, start="latest")
    topics.produce(broker, topic, 3)
    assert cli_process.plan(cli, ledger, "manual__1") == []
    (backfill,) = cli.json("replay", NAME, "--range", f"{topic}/0 [0, 2)", "--reason", WHY)["batch_ids"]
    assert cli.json("batch", str(backfill))["kind"] == "backfill"
    planners.finish(ledger, [backfill])
    (left,) = cli.json("coverage", NAME)["holes"]
    assert (left["hole"], left["start_offset"], left["end_offset"]) == ("before start", 2, 3)


def test_a_replay_of_what_kafka_no_longer_holds_is_refused(cli, ledger, broker, topic, admin):
    topics.produce(broker, topic, 5)
    old = cli_process.load(cli, ledger)
    admin.delete_records([TopicPartition(topic, 0, 3)])[TopicPartition(topic, 0)].result()
    error = cli.error("replay", NAME, "--batch", str(old), "--reason", WHY, code=20)
    assert f"{topic}/0 [0, 5): Kafka holds [3, 5) of this partition" in error["error"]
    assert error["entry"] == "offsets-not-in-kafka"
    assert len(cli.json("batches", NAME)["batches"]) == 1


def test_an_open_batch_is_retried_and_a_published_one_is_not(cli, ledger, broker, topic):
    topics.produce(broker, topic, 5)
    loaded = cli_process.load(cli, ledger)
    topics.produce(broker, topic, 5)
    (failed,) = cli_process.plan(cli, ledger, "manual__2")
    attempts.fail(ledger, ledgers.claim(ledger, failed), "no room")
    done = cli("retry", str(failed), "--reason", "there is room again")
    assert done.stdout.startswith(f"batch {failed} (live): {topic}/0 [5, 10)\n")
    assert reasons(ledger, "retry") == [("cli ada@tower", "there is room again")]
    assert state(ledger, failed) == ("failed", 1)
    assert (
        "is advanced: there is nothing left to write"
        in cli.error("retry", str(loaded), "--reason", WHY, code=20)["error"]
    )
    assert cli.error("retry", "99", "--reason", WHY, code=20)["entry"] == "no-such-batch"


def test_rejects_are_driven_again_by_batch_and_by_reason(cli, ledger, broker, topic):
    topics.produce(broker, topic, 5)
    loaded = cli_process.load(cli, ledger, rejected=2)
    nothing = cli("redrive", NAME, "--reject-reason", "too long", "--reason", WHY)
    assert nothing.stdout.startswith(f"{NAME}: no reject fits; nothing was reserved\n")
    (redriven,) = cli.json("redrive", NAME, "--batch", str(loaded), "--reject-reason", "json", "--reason", WHY)[
        "batch_ids"
    ]
    assert cli.json("batch", str(redriven))["kind"] == "redrive"
    assert query(ledger, "SELECT kafka_offset FROM tideline.redrive WHERE batch_id = %s ORDER BY 1", redriven) == [
        (0,),
        (1,),
    ]


def test_skipped_offsets_become_a_hole_with_name_and_reason(cli, ledger, broker, topic):
    topics.produce(broker, topic, 5)
    cli_process.load(cli, ledger)
    topics.produce(broker, topic, 5)
    (planned,) = cli_process.plan(cli, ledger, "manual__2")
    done = cli("skip", NAME, f"{topic}/0 [6, 7)", "--reason", "crashes the transform")
    assert done.stdout.splitlines() == [
        f"{topic}/0 [6, 7): skipped; a backfill can fill it later",
        f"batch {planned}: abandoned for it; the next run plans its other offsets again",
    ]
    (hole,) = cli.json("coverage", NAME)["holes"]
    assert (hole["hole"], hole["start_offset"], hole["end_offset"]) == ("skipped", 6, 7)
    assert (hole["reason"], hole["decided_by"]) == ("crashes the transform", "cli ada@tower")
    error = cli.error("skip", NAME, f"{topic}/0 [4, 8)", "--reason", WHY, code=20)
    assert "[4, 5) is loaded by batch" in error["error"]


def test_a_loss_that_is_accepted_lets_the_stream_go_on(cli, ledger, broker, topic, admin):
    topics.produce(broker, topic, 5)
    cli_process.load(cli, ledger)
    topics.produce(broker, topic, 5)
    assert cli.error("accept-loss", NAME, topic, "--reason", WHY, code=20)["entry"] == "nothing-to-decide"
    admin.delete_records([TopicPartition(topic, 0, 8)])[TopicPartition(topic, 0)].result()
    shown = cli.json("streams", NAME)["streams"][0]
    assert (shown["state"], shown["will_stop"]) == ("active", True)
    with pytest.raises(NeedsOperatorError):
        cli_process.plan(cli, ledger, "manual__2")
    (row,) = table(cli("streams", NAME))
    assert row["state"] == "stopped"
    assert row["why"].startswith("offsets [5, 8) are gone unread")
    done = cli("accept-loss", NAME, f"{topic}/0", "--reason", "down for nine days")
    assert done.stdout == f"{topic}/0: [5, 8) recorded as lost; goes on at 8\n"
    assert reasons(ledger, "accept loss") == [("cli ada@tower", "down for nine days")]
    assert cli.json("streams", NAME)["streams"][0]["state"] == "active"


def test_a_topic_that_was_created_again_is_adopted(cli, ledger, broker, topic, admin):
    topics.produce(broker, topic, 5)
    cli_process.load(cli, ledger)
    topics.recreate(admin, topic)
    decided = cli.json("adopt-topic", NAME, topic, "--reason", "recreated, see #90")["decided"]
    assert [line.split(": ")[-1] for line in decided] == ["retired at 5", "begins at 0"]
    rows = cli.json("streams", NAME)["streams"]
    assert [(row["state"], row["head"], row["lag"]) for row in rows] == [("retired", 5, None), ("active", 0, 0)]
    assert cli.error("adopt-topic", NAME, topic, "--reason", WHY, code=20)["entry"] == "nothing-to-decide"


def test_an_abandoned_batch_gives_its_offsets_back_and_one_that_is_written_does_not(cli, ledger, broker, topic):
    topics.produce(broker, topic, 5)
    (planned,) = cli_process.plan(cli, ledger, "manual__1")
    assert cli.json("abandon", str(planned), "--reason", WHY) == {
        "batch_id": planned,
        "dry_run": False,
        "state": "abandoned",
    }
    assert reasons(ledger, "abandon") == [("cli ada@tower", WHY)]
    (again,) = cli_process.plan(cli, ledger, "manual__2")
    ledgers.claim(ledger, again)
    error = cli.error("abandon", str(again), "--reason", WHY, code=20)
    assert error["entry"] == "batch-is-being-written"


def test_a_dry_run_says_what_would_happen_and_changes_nothing(cli, ledger, broker, topic):
    topics.produce(broker, topic, 10)
    (batch_id,) = cli_process.plan(cli, ledger, "manual__1")
    before = query(ledger, "SELECT state::text, (SELECT count(*) FROM tideline.event) FROM tideline.batch")
    said = cli("abandon", str(batch_id), "--dry-run", "--reason", WHY).stdout
    assert f"batch {batch_id}: would be abandoned" in said
    said = cli("skip", NAME, f"{topic}/0 [2, 4)", "--dry-run", "--reason", WHY).stdout
    assert "would be skipped" in said
    assert f"batch {batch_id}: would be abandoned for it" in said
    assert query(ledger, "SELECT state::text, (SELECT count(*) FROM tideline.event) FROM tideline.batch") == before


def test_a_silent_airflow_does_not_hide_that_the_batches_are_reserved(cli, ledger, broker, topic):
    topics.produce(broker, topic, 5)
    old = cli_process.load(cli, ledger)
    airflow = {
        "TIDELINE_AIRFLOW_URL": "http://127.0.0.1:1",
        "TIDELINE_AIRFLOW_USERNAME": "a",
        "TIDELINE_AIRFLOW_PASSWORD": secret.marked("b"),
    }
    silent = replace(cli, variables={**cli.variables, **airflow})
    done = silent("replay", NAME, "--batch", str(old), "--reason", WHY, code=10)
    assert f"batch {old + 1} is written by a run of DAG" in done.stdout
    assert "did not answer" in done.stderr
    assert state(ledger, old + 1) == ("planned", 0)


def test_a_user_who_may_only_look_is_refused_without_a_traceback(cli, ledger, broker, topic):
    topics.produce(broker, topic, 5)
    (planned,) = cli_process.plan(cli, ledger, "manual__1")
    with cli_process.reader_of(cli.variables["TIDELINE_LEDGER_URL"]) as url:
        only = replace(cli, variables={**cli.variables, "TIDELINE_LEDGER_URL": url})
        assert [row["state"] for row in only.json("batches", NAME)["batches"]] == ["planned"]
        error = only.error("abandon", str(planned), "--reason", WHY, code=20)
    assert "permission denied" in error["error"]
