"""A batch that failed is written with its recorded ranges, whichever way a person takes."""

import json
from dataclasses import dataclass
from urllib.parse import unquote

import pytest

import records
from operating import WHO, command
from system import System, decoded

WAYS = ("cleared", "triggered", "commanded")


@dataclass(frozen=True, kw_only=True)
class Again:
    """What a failed batch holds, and the run that has written it."""

    sent: dict
    batch_id: int
    run_id: str


def by_clearing(system: System, name: str, failed: str, _batch_id: int) -> str:
    system.airflow.clear(name, failed)
    return failed


def by_triggering(system: System, name: str, _failed: str, batch_id: int) -> str:
    return system.start(name, load="a batch", batch_id=batch_id)


def by_command(system: System, _name: str, _failed: str, batch_id: int) -> str:
    done = command(system, "tideline", "retry", str(batch_id), "--reason", "the transform is mended", "--json")
    [run] = json.loads(done)["runs"]
    return unquote(run["url"].rpartition("/")[2])


@pytest.fixture(scope="module")
def again(system) -> dict[str, Again]:
    """A pipeline for each way: one batch has failed, new records have come, then it is written again."""
    sent = {f"failed_{way}": system.fill(f"failed_{way}", 20, partitions=2) for way in WAYS}
    failed = {name: system.start(name) for name in sent}
    runs = {}
    for name, act in zip(sent, (by_clearing, by_triggering, by_command), strict=True):
        assert system.airflow.finished(name, failed[name]) == "failed"
        (system.folder / "pipelines" / name / "transform.py").unlink()
        records.produce(system.bootstrap, name, map(records.record, range(20, 30)), partitions=2)
        [batch_id] = system.batches(name)
        runs[name] = Again(sent=sent[name], batch_id=batch_id, run_id=act(system, name, failed[name], batch_id))
    for name, run in runs.items():
        system.succeed(name, run.run_id)
    return runs


@pytest.mark.parametrize("way", WAYS)
def test_a_failed_batch_is_written_with_its_recorded_ranges_when_it_is(system, again, way):
    name = f"failed_{way}"
    assert system.planned(name, again[name].run_id) == [again[name].batch_id]
    assert system.output(name) == decoded(again[name].sent)
    assert system.attempts(name) == [(1, "failed"), (2, "published")]
    assert system.batches(name) == {again[name].batch_id: "advanced"}
    assert system.heads(name) == [10, 10]


def test_who_commands_a_retry_stands_in_the_history(system, again):
    rows = system.rows(
        "SELECT actor, detail->>'reason' FROM tideline.event WHERE pipeline = 'failed_commanded' AND action = 'retry'"
    )
    assert rows == [(WHO, "the transform is mended")]
