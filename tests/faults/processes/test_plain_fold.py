"""The comparison of states with a plain fold finds what is wrong with them. Without these tests it might find nothing."""

import pytest

from faults.processes.ground import Ground
from faults.processes.process_pipelines import Output
from faults.processes.process_scene import Scene
from faults.simulation.simulated_kafka import SimulatedKafka

PLANTED: dict[str, tuple[str, ...]] = {
    "a state that has folded a record twice": (
        "UPDATE tideline.state SET value = value || '{\"records\": 99}' WHERE pipeline = %(pipeline)s",
        "state",
    ),
    "a key that is missing": ("DELETE FROM tideline.state WHERE pipeline = %(pipeline)s", "state"),
    "a timer that is too late": (
        "UPDATE tideline.state SET expires_at = expires_at + interval '1 h' WHERE pipeline = %(pipeline)s",
        "state",
    ),
    "a position before the end of what is loaded": (
        "UPDATE tideline.state_position SET next_offset = next_offset - 1 WHERE pipeline = %(pipeline)s",
        "position",
    ),
    "an event time that no record has": (
        "UPDATE tideline.state_position SET max_time = max_time + interval '1 s' WHERE pipeline = %(pipeline)s",
        "watermark",
    ),
    "undo that restores another state": (
        (
            'UPDATE tideline.state_undo SET value = \'{"first": 1, "records": 1}\' WHERE existed AND batch_id ='
            " (SELECT max(batch_id) FROM tideline.state_batch WHERE pipeline = %(pipeline)s)"
        ),
        "state",
    ),
    "undo that forgets a key": (
        "DELETE FROM tideline.state_undo WHERE batch_id IN (SELECT batch_id FROM tideline.state_batch WHERE pipeline = %(pipeline)s)",
        "state",
        "undo",
    ),
    "a timer that has made its row twice": (
        "UPDATE ads.{name} SET price = price + 1 WHERE item = -1",
        "timers",
    ),
}


def _found(ground: Ground) -> dict[str, list[str]]:
    """Plant each mistake in states of its own, past the triggers; return the laws that are violated."""
    found = {}
    for title, (statement, *_) in PLANTED.items():
        scene = Scene(ground, ground.declare(Output.FOLDED), SimulatedKafka(lambda *_: None, 1, (11,)))
        scene.load()
        scene.arrive(11)
        scene.load()
        assert scene.violations(quiet=True) == []
        name = scene.pipeline.name
        text = statement.format(name=name) if "{name}" in statement else statement.replace("%(pipeline)s", f"'{name}'")
        scene.query(f"SET session_replication_role = replica; {text}; SET session_replication_role = origin")
        found[title] = sorted({violation.law for violation in scene.violations(quiet=True)})
    return found


@pytest.fixture(scope="module")
def found(workers):
    return workers.submit(_found).result()


@pytest.mark.parametrize("title", PLANTED)
def test_what_is_wrong_with_states_is_found(found, title):
    assert set(found[title]) == {*PLANTED[title][1:]}
