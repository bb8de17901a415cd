"""kill -9 of the processes of a write task, one after the other in one run: its batch is published once, by the try that is not killed."""

from killed_run import NAME, PARTITIONS
from system import decoded


def test_a_jvm_killed_before_publishing_leaves_nothing(killed):
    assert killed.left_behind == {}


def test_tries_take_over_from_an_orphan_and_from_a_dead_jvm_until_one_publishes_once(system, killed):
    assert killed.successor != killed.orphan
    assert system.airflow.tasks(NAME, killed.run_id)["write"]["try_number"] == 3
    assert system.output(NAME) == decoded(killed.sent)
    assert system.attempts(NAME) == [(1, "superseded"), (2, "superseded"), (3, "published")]
    assert system.events(NAME, "publish", "advance") == [("publish", 3), ("advance", 3)]
    assert system.counts(NAME) == dict.fromkeys(range(PARTITIONS), (1000, 1000, 0, 0, 0))


def test_an_orphaned_driver_is_refused_once_a_retry_has_claimed(system, killed):
    """Nothing ends a driver whose supervisor was killed. Its remaining locks prevent the retry neither from publishing nor from success."""
    assert system.events(NAME, "refuse") == [("refuse", 1)]
