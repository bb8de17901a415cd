"""Failed runs: the batches that they leave unfinished are named, and are written with the same ranges by each way to retry.

The tests are one sequence. The transform has one mistake, then another one, then it is corrected, while the records of three hours arrive.
"""

import json
import shutil
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import unquote

import pytest

import declared_pipelines
import records
from declared_pipelines import HOUR, LAST_TICK
from operator_acts import WHO, command
from system import Place, System, decoded

NAME = "unfinished"
EDGES = (0, 60, 120, 180, 240, 270)
"""The bounds of the batches, in each of two partitions: three of the first hour, one of the second and one of the third."""
FIRST, SECOND, THIRD = LAST_TICK - 2 * HOUR, LAST_TICK - HOUR, LAST_TICK
"""Where the hours end."""


def produce(system: System, hour: datetime, first: int, end: int) -> dict[Place, bytes | None]:
    moment = round(hour.timestamp() * 1000) - 1
    values = map(records.record, range(first, end))
    return records.produce(system.bootstrap, NAME, values, partitions=2, timestamp_ms=moment)


def ranges(number: int) -> dict[int, tuple[int, int]]:
    """Return the ranges of a batch by its number in the sequence."""
    return dict.fromkeys((0, 1), (EDGES[number], EDGES[number + 1]))


def attempts(system: System, batch_id: int) -> list[tuple[int, str]]:
    """Return fence and outcome of each attempt at a batch, in order."""
    return system.rows("SELECT fence, outcome::text FROM tideline.attempt WHERE batch_id = %s ORDER BY fence", batch_id)


# Runs that fail ------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sent(system) -> dict[Place, bytes | None]:
    """Send the records of the first two hours."""
    records.create(system.bootstrap, name=NAME, partitions=2)
    return produce(system, FIRST, 0, 360) | produce(system, SECOND, 360, 480)


@pytest.fixture(scope="module")
def mistaken(system, sent) -> str:
    """Run the first hour, with a transform whose mistake affects each of its three batches."""
    return system.fail(NAME, until=FIRST.isoformat())


@pytest.fixture(scope="module")
def unfit(system, mistaken) -> str:
    """Run the second hour, with a transform that rejects every record."""
    shutil.copy(declared_pipelines.SHARED / "unfit_transform.py", system.folder / "pipelines" / NAME / "transform.py")
    return system.fail(NAME, until=SECOND.isoformat())


def test_a_mistake_fails_write_at_once_and_marking_it_success_moves_no_head(system, mistaken):
    """Two retries are declared; they would cost two JVMs and fail in the same way."""
    assert system.states(NAME, mistaken) == {
        "plan": "success",
        "write": "failed",
        "advance": "upstream_failed",
        "announce": "skipped",
    }
    assert system.airflow.tasks(NAME, mistaken)["write"]["try_number"] == 1
    assert "transform.py: cannot be imported: ModuleNotFoundError" in system.log(NAME, mistaken, "write")
    first, *others = system.planned(NAME, mistaken)
    assert system.batches(NAME) == {first: "failed", **dict.fromkeys(others, "planned")}
    system.airflow.mark(NAME, mistaken, "write", "success")
    system.wait(lambda: system.states(NAME, mistaken)["advance"] == "failed", "advance to fail")
    log = system.log(NAME, mistaken, "advance")
    assert f"batch {first} is failed, last tried by write try 1 of {mistaken}" in log
    assert "a_module_that_does_not_exist" in log
    assert all(f"batch {batch_id} is planned, not tried yet" in log for batch_id in others)
    assert system.heads(NAME) == [0, 0]
    assert system.events(NAME, "publish", "advance", "move head") == []


def test_the_next_run_tries_open_batches_and_its_own_and_each_fails_by_itself(system, mistaken, unfit):
    assert system.airflow.tasks(NAME, unfit)["write"]["try_number"] == 1
    assert "no record is good enough" in system.log(NAME, unfit, "write")
    *old, own = system.planned(NAME, unfit)
    assert old == system.planned(NAME, mistaken)
    assert system.batches(NAME) == dict.fromkeys([*old, own], "failed")
    assert [system.ranges(batch_id) for batch_id in [*old, own]] == [ranges(number) for number in range(4)]
    assert system.heads(NAME) == [0, 0]


# Batches that are written again --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Again:
    """A failed batch, the run that has written it, and the observations after the end of that run."""

    batch_id: int
    run_id: str
    output: dict[Place, tuple]
    heads: list[int]
    batches: dict[int, str]


def by_triggering(system: System, _failed: str, batch_id: int) -> str:
    return system.start(NAME, load="a batch", batch_id=batch_id)


def by_command(system: System, _failed: str, batch_id: int) -> str:
    done = command(system, "tideline", "retry", str(batch_id), "--reason", "the transform is mended", "--json")
    [run] = json.loads(done)["runs"]
    return unquote(run["url"].rpartition("/")[2])


def by_clearing(system: System, failed: str, _batch_id: int) -> str:
    system.airflow.clear(NAME, failed)
    return failed


WAYS = {"triggered": by_triggering, "commanded": by_command, "cleared": by_clearing}


@pytest.fixture(scope="module")
def again(system, sent, mistaken, unfit) -> dict[str, Again]:
    """Correct the transform and send the records of the third hour; then write one batch of the first hour in each way."""
    (system.folder / "pipelines" / NAME / "transform.py").unlink()
    sent |= produce(system, THIRD, 480, 540)
    found = {}
    for (way, act), batch_id in zip(WAYS.items(), system.planned(NAME, mistaken), strict=True):
        run_id = act(system, mistaken, batch_id)
        system.succeed(NAME, run_id)
        seen = {"output": system.output(NAME), "heads": system.heads(NAME), "batches": system.batches(NAME)}
        found[way] = Again(batch_id=batch_id, run_id=run_id, **seen)
    return found


@pytest.mark.parametrize("way", WAYS)
def test_a_failed_batch_is_written_with_its_recorded_ranges_when_it_is(system, sent, unfit, again, way):
    """Only that batch is written: no other failed one, and nothing new."""
    number, run = list(WAYS).index(way), again[way]
    end = EDGES[number + 1]
    assert system.ranges(run.batch_id) == ranges(number)
    assert run.output == decoded({place: value for place, value in sent.items() if place[1] < end})
    assert run.heads == [end, end]
    failed = system.planned(NAME, unfit)
    assert run.batches == dict.fromkeys(failed, "failed") | dict.fromkeys(failed[: number + 1], "advanced")
    # Both runs have tried the first one.
    tried = [(1, "failed"), (2, "failed")] if number == 0 else [(1, "failed")]
    assert attempts(system, run.batch_id) == [*tried, (len(tried) + 1, "published")]


def test_a_run_gets_its_requested_batch_and_a_cleared_run_its_own_unwritten_ones(system, again):
    for way in ("triggered", "commanded"):
        assert system.planned(NAME, again[way].run_id) == [again[way].batch_id]
    cleared = again["cleared"]
    assert system.planned(NAME, cleared.run_id) == [run.batch_id for run in again.values()]
    log = system.log(NAME, cleared.run_id, "write")
    skipped = [f"batch {run.batch_id} is advanced: skipped" in log for run in again.values()]
    assert skipped == [True, True, False]


def test_the_history_names_the_operator_of_a_retry(system, again):
    rows = system.rows(
        "SELECT batch_id, actor, detail->>'reason' FROM tideline.event WHERE pipeline = %s AND action = 'retry'", NAME
    )
    assert rows == [(again["commanded"].batch_id, WHO, "the transform is mended")]


def test_the_next_run_finishes_a_failed_hour_with_the_same_ranges(system, sent, unfit, again):
    *written, old = system.planned(NAME, unfit)
    healed = system.run(NAME, until=THIRD.isoformat())
    [adopted, new] = system.planned(NAME, healed)
    assert adopted == old
    assert (system.ranges(old), system.ranges(new)) == (ranges(3), ranges(4))
    assert system.output(NAME) == decoded(sent)
    assert attempts(system, old) == [(1, "failed"), (2, "published")]
    assert attempts(system, new) == [(1, "published")]
    assert system.batches(NAME) == dict.fromkeys([*written, old, new], "advanced")
