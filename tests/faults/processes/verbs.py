"""Define the verbs of the matrix: how each is brought into a situation with work to do, and what is done after a
fault."""

from faults.actions import Abandon, AcceptLoss, AdoptTopic, Advance, Plan, Retry, Skip, Upkeep, Write
from faults.operations import CreateAgain, Retain
from faults.processes.child import Migrate
from faults.processes.lake_verbs import LAKE_VERBS
from faults.processes.process_scene import Scene
from faults.processes.scenarios import (
    Scenario,
    Verb,
    batches_of,
    commanding,
    head_of,
    holes_of,
    left_behind,
    only_batch,
    pieces,
    planned,
    planning,
    state_of,
    write_live,
    write_redrive,
    write_replay,
    writing,
)
from faults.processes.state_verbs import STATE_VERBS
from given_topics.topics import window
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import KeptRejects, NamedRange, NewRecords


def _plan_first(scene: Scene) -> Scenario:
    scene.arrive(3)
    return planning(scene, NewRecords())


def _plan_adopting(scene: Scene) -> Scenario:
    planned(scene)
    scene.arrive(3)
    return planning(scene, NewRecords())


def _plan_window(scene: Scene) -> Scenario:
    head = head_of(scene)
    scene.arrive(3)
    return planning(scene, window(head - 3, head + 2, replace=True))


def _plan_redrive(scene: Scene) -> Scenario:
    return planning(scene, KeptRejects())


def _write_backfill(scene: Scene) -> Scenario:
    head = head_of(scene)
    scene.arrive(8)
    assert not scene.run_tasks(Skip(NamedRange("ads", 0, OffsetRange(head, head + 6)))).error
    return writing(scene, pieces(head + 1, head + 5))


def _advance(scene: Scene) -> Scenario:
    scene.arrive(4)
    run = scene.run()
    assert not scene.run_tasks(Plan(run=run, request=NewRecords()), Write(run=run, try_number=1)).error
    finished = {"advanced", "superseded"}
    return Scenario(
        Advance(run=run),
        (Advance(run=run),),
        lambda: all(state in finished for _, state in batches_of(scene, run.run_id)),
    )


def _skip(scene: Scene) -> Scenario:
    """Skip offsets that a batch has reserved, and some behind it."""
    head = head_of(scene)
    planned(scene)
    scene.arrive(2)
    piece = NamedRange("ads", 0, OffsetRange(head + 1, head + 5))
    return commanding(Skip(piece), lambda: (head + 1, head + 5) in holes_of(scene, "skipped"))


def _accept_loss(scene: Scene) -> Scenario:
    head = head_of(scene)
    scene.arrive(6)
    log_start = scene.kafka.cluster.topics["ads"].logs[0].start
    scene.apply(Retain(0, head + 2 - log_start))
    assert scene.run_tasks(Plan(run=scene.run(), request=NewRecords())).error == "NeedsOperatorError"
    return commanding(AcceptLoss(), lambda: (head, head + 2) in holes_of(scene, "lost"))


def _adopt_topic(scene: Scene) -> Scenario:
    for _ in range(2):  # every other incarnation is written in transactions and has gaps
        scene.apply(CreateAgain((4,)))
    assert scene.run_tasks(Plan(run=scene.run(), request=NewRecords())).error == "NeedsOperatorError"
    followed = "SELECT topic_id::text FROM tideline.stream WHERE pipeline = %s AND state = 'active'"
    now = str(scene.kafka.cluster.topics["ads"].topic_id)
    return commanding(AdoptTopic(), lambda: scene.query(followed, scene.pipeline.name) == [(now,)])


def _abandon(scene: Scene) -> Scenario:
    batch_id = planned(scene)
    return commanding(Abandon(batch_id), lambda: state_of(scene, batch_id) == "abandoned")


def _retry(scene: Scene) -> Scenario:
    batch_id = planned(scene)
    events = "SELECT count(*) > 0 FROM tideline.event WHERE batch_id = %s AND action = 'retry'"
    return commanding(Retry(batch_id), lambda: scene.query(events, batch_id) == [(True,)])


def _upkeep(scene: Scene) -> Scenario:
    """Run upkeep after a writer died and left its staging table, with old events."""
    run = scene.run()
    scene.arrive(11)
    batch_id = only_batch(scene, run)
    left_behind(scene, run, "count_rejects")
    scene.grow_old()
    return commanding(Upkeep(), lambda: state_of(scene, batch_id) == "failed" and not scene.staging())


def _migrate(_: Scene) -> Scenario:
    return Scenario(Migrate(), (Migrate(),))


VERBS = {
    verb.name: verb
    for verb in (
        Verb("plan, the first", _plan_first, first=2),
        Verb("write, the first", write_live, first=1),
        Verb("advance", _advance),
        Verb("plan that adopts", _plan_adopting),
        Verb("plan of a window", _plan_window),
        Verb("plan of a re-drive", _plan_redrive),
        Verb("write a backfill", _write_backfill),
        Verb("write a replay", write_replay),
        Verb("write a re-drive", write_redrive),
        Verb("skip", _skip),
        Verb("accept-loss", _accept_loss),
        Verb("adopt-topic", _adopt_topic),
        Verb("abandon", _abandon),
        Verb("retry", _retry),
        Verb("upkeep", _upkeep),
        Verb("migrate", _migrate, empty=True),
        *LAKE_VERBS,
        *STATE_VERBS,
    )
}
