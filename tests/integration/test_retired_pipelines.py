"""A pipeline that was given up is taken out of sight by a decision. What can load, or what is asked for by its name, is always shown."""

import shutil

import pytest

from given_ledger import ledgers
from given_ledger.ledgers import query, refused
from given_ledger.planners import declared
from given_ledger.planners import plan as planned
from given_topics import topics
from servers import cli_process
from servers.cli_process import NAME, table
from tideline import flow
from tideline.errors import FatalError
from tideline.ledger import queries

WHY = "replaced by clicks"


def history(ledger) -> list[tuple[str, str | None]]:
    """Return action and reason of each retirement and of each return, in order."""
    return query(
        ledger,
        "SELECT action, detail ->> 'reason' FROM tideline.event WHERE action IN ('retire pipeline', 'bring back pipeline') ORDER BY event_id",
    )


def retired(ledger) -> set[str]:
    with queries.reading(ledger):
        return queries.retired(ledger)


def test_a_pipeline_is_retired_and_brought_back_each_time_with_a_reason_that_the_history_keeps(ledger):
    ledgers.start_streams(ledger, 1, pipeline="gone")
    with pytest.raises(FatalError, match="needs a reason"):
        flow.retire(ledger, "gone", reason=" ")
    assert flow.retire(ledger, "gone", reason=WHY, dry_run=True)
    assert retired(ledger) == set()
    assert flow.retire(ledger, "gone", reason=WHY)
    assert not flow.retire(ledger, "gone", reason="again")
    assert retired(ledger) == {"gone"}
    assert flow.retire(ledger, "gone", reason="needed", back=True)
    assert not flow.retire(ledger, "gone", reason="again", back=True)
    assert retired(ledger) == set()
    assert history(ledger) == [("retire pipeline", WHY), ("bring back pipeline", "needed")]
    for back in (False, True):
        with pytest.raises(FatalError, match="that the ledger knows, found 'unheard'"):
            flow.retire(ledger, "unheard", reason=WHY, back=back)
    assert query(ledger, "SELECT pipeline FROM tideline.pipeline") == [("gone",)]


def test_a_pipeline_whose_batches_could_still_be_written_does_not_retire(ledger):
    (stream,) = ledgers.start_streams(ledger, 1)
    batch_id = ledgers.plan(ledger, {stream: (0, 10)})
    by_hand = "SET LOCAL tideline.reason = 'mine'; UPDATE tideline.pipeline SET retired_at = now()"
    for state in ("planned", "writing"):
        if state == "writing":
            ledgers.claim(ledger, batch_id)
        with pytest.raises(
            FatalError, match=f"expected no open batches of a pipeline that retires, found {batch_id}"
        ) as caught:
            flow.retire(ledger, ledgers.PIPELINE, reason=WHY)
        assert f"tideline abandon {batch_id} --reason" in caught.value.next_step
        assert "batches of it are open" in refused(ledger, by_hand)
    flow.abandon(ledger, batch_id, reason=WHY, force=True)
    assert "without a reason" in refused(ledger, "UPDATE tideline.pipeline SET retired_at = now()")
    assert flow.retire(ledger, ledgers.PIPELINE, reason=WHY)


def test_the_next_plan_of_a_retired_pipeline_brings_it_back_whether_it_finds_records_or_not(
    broker, topic, ledger, ledger_url
):
    one = declared(broker.bootstrap, topic, name="one")
    for n_records in (0, 3):
        assert planned(ledger_url, one, f"before {n_records}") == []
        assert flow.retire(ledger, "one", reason=WHY)
        topics.produce(broker, topic, n_records)
        assert len(planned(ledger_url, one, f"after {n_records}")) == (n_records > 0)
        assert retired(ledger) == set()
    assert history(ledger) == [("retire pipeline", WHY), ("bring back pipeline", None)] * 2


def names(document) -> set[str]:
    return {row["pipeline"] for row in document["pipelines"]}


def test_a_retired_pipeline_without_a_folder_is_listed_only_when_it_is_asked_for(cli, ledger, topic):
    ledgers.start_streams(ledger, 1, pipeline="gone")
    (found,) = [one for one in cli.json("doctor")["checks"] if (one["about"], one["check"]) == ("gone", "declaration")]
    assert (found["verdict"], found["next_step"]) == (
        "warn",
        "restore its folder; if it was discontinued: tideline retire gone --reason ...",
    )
    assert 'pipeline="gone"' in cli("metrics").stdout

    said = "retired; its history stays: tideline pipelines --retired\n"
    assert cli("retire", "gone", "--reason", WHY, "--dry-run").stdout == f"gone: would be {said}"
    assert names(cli.json("pipelines")) == {NAME, "gone"}
    assert cli("retire", "gone", "--reason", WHY).stdout == f"gone: is {said}"
    assert cli("retire", "gone", "--reason", WHY).stdout == "gone: is retired already; nothing was changed\n"
    assert names(cli.json("pipelines")) == {NAME}
    assert "1 retired, not shown: tideline pipelines --retired" in cli("pipelines").stdout
    states = {row["pipeline"]: row["state"] for row in table(cli("pipelines", "--retired"))}
    assert states["gone"] == "retired"
    assert 'pipeline="gone"' not in cli("metrics").stdout
    (found,) = [one for one in cli.json("doctor")["checks"] if (one["about"], one["check"]) == ("gone", "declaration")]
    assert found["verdict"] == "ok"
    for command, code in (("batches", 0), ("coverage", 20), ("streams", 20)):  # 20: no folder says which brokers to ask
        assert cli.json(command, "gone", code=code)["pipeline"] == "gone"

    again = cli("retire", "gone", "--back", "--reason", "needed").stdout
    assert again == "gone: is listed again\n"
    assert cli("retire", "gone", "--back", "--reason", "x").stdout == "gone: is not retired; nothing was changed\n"
    assert names(cli.json("pipelines")) == {NAME, "gone"}


@pytest.mark.parametrize("broken", [False, True])
def test_a_pipeline_that_has_a_folder_is_shown_also_if_it_is_retired(cli, ledger, topic, broken):
    ledgers.start_streams(ledger, 1, pipeline="kept")
    flow.retire(ledger, "kept", reason=WHY)
    assert names(cli.json("pipelines")) == {NAME}
    folder = cli.declare("kept", topic, **({"description": 7} if broken else {}))
    (row,) = [row for row in cli.json("pipelines")["pipelines"] if row["pipeline"] == "kept"]
    assert row["state"] == ("broken declaration" if broken else "ok")
    assert 'tideline_head_offset{partition="0",pipeline="kept"' in cli("metrics").stdout

    flow.retire(ledger, "kept", reason=WHY, back=True)
    error = cli.error("retire", "kept", "--reason", WHY, code=20)
    assert (error["entry"], "that no folder declares, found" in error["error"]) == ("pipeline-does-not-retire", True)
    shutil.rmtree(folder)
    assert cli.json("retire", "kept", "--reason", WHY)["changed"]


def test_where_the_folders_are_not_found_metrics_hide_nothing(cli, ledger, tmp_path):
    ledgers.start_streams(ledger, 1, pipeline="gone")
    flow.retire(ledger, "gone", reason=WHY)
    away = cli_process.Cli(folder=tmp_path / "nowhere", variables=cli.variables)
    assert 'pipeline="gone"' in away("metrics").stdout
