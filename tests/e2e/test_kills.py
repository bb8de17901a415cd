"""kill -9 of the processes of a write task: a batch is published once, whichever process survives."""

import held_tasks
from system import decoded


def test_a_jvm_killed_before_publishing_leaves_nothing_and_its_retry_publishes_once(system):
    sent = system.fill("jvm_killed", 3000, partitions=3)
    run_id = system.start("jvm_killed")
    write = held_tasks.writing(system, "jvm_killed")
    with held_tasks.before_publish(system, write.batch_id):
        write.jvm.kill()
        write.driver.wait(180)
        assert system.output("jvm_killed") == {}
    system.succeed("jvm_killed", run_id)
    assert system.output("jvm_killed") == decoded(sent)
    assert system.attempts("jvm_killed") == [(1, "superseded"), (2, "published")]
    assert system.events("jvm_killed", "publish", "advance") == [("publish", 2), ("advance", 2)]
    assert system.counts("jvm_killed") == dict.fromkeys(range(3), (1000, 1000, 0, 0, 0))


def test_an_orphaned_driver_publishes_once_and_the_retry_passes_over(system):
    """Nothing ends a driver whose supervisor was killed: it has done the work, and may publish it."""
    sent = system.fill("orphan_first", 3000, partitions=3)
    run_id = system.start("orphan_first")
    write = held_tasks.writing(system, "orphan_first")
    with held_tasks.before_publish(system, write.batch_id):
        write.supervisor.kill()
    system.succeed("orphan_first", run_id)
    assert system.airflow.tasks("orphan_first", run_id)["write"]["try_number"] == 2
    assert f"batch {write.batch_id} is published: skipped" in system.log("orphan_first", run_id, "write")
    assert system.output("orphan_first") == decoded(sent)
    assert system.attempts("orphan_first") == [(1, "published")]
    assert system.events("orphan_first", "publish", "refuse") == [("publish", 1)]


def test_an_orphaned_driver_is_refused_once_the_retry_has_claimed(system):
    """Its remaining locks prevent the retry neither from publishing nor from success."""
    sent = system.fill("retry_first", 3000, partitions=3)
    run_id = system.start("retry_first")
    orphan = held_tasks.writing(system, "retry_first")
    with held_tasks.while_staging(system, orphan):
        orphan.supervisor.kill()
        retry = held_tasks.writing(system, "retry_first", fence=2)
        assert retry.driver.pid != orphan.driver.pid
        system.succeed("retry_first", run_id)
    orphan.driver.wait(300)
    assert system.airflow.tasks("retry_first", run_id)["write"]["try_number"] == 2
    assert system.output("retry_first") == decoded(sent)
    assert system.attempts("retry_first") == [(1, "superseded"), (2, "published")]
    assert sorted(system.events("retry_first", "publish", "refuse")) == [("publish", 2), ("refuse", 1)]
