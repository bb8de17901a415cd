"""Bring a pipeline into situations with work to do, for the verbs of the matrix."""

from collections.abc import Callable
from dataclasses import dataclass

from faults.actions import Advance, Plan, Task, Write
from faults.processes.child import Migrate, Timing
from faults.processes.process import PATIENCE_SECONDS
from faults.processes.process_pipelines import Output
from faults.processes.process_scene import Scene
from tideline.domain.offsets import OffsetRange
from tideline.domain.requests import KeptRejects, NamedRange, NewRecords, Ranges, Request
from tideline.ledger.reservations import Run


@dataclass(frozen=True, slots=True)
class Scenario:
    """A task or command that is about to run."""

    task: Task | Migrate
    again: tuple[Task | Migrate, ...]
    """What Airflow or an operator runs after the fault."""
    done: Callable[[], bool] = lambda: True
    """Whether these have reached the goal of the verb."""
    asks_again: bool = False
    """Whether a repeated plan of a finished run plans the same offsets once more. This holds for runs that request
    certain offsets, and for a rewind, also if they were frozen."""


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb in one situation."""

    name: str
    prepare: Callable[[Scene], Scenario]
    first: int = 0
    """Partitions of a pipeline that has loaded nothing yet; 0 if the verb does not need a new pipeline."""
    empty: bool = False
    """Whether it begins with an empty database of its own."""
    output: Output = Output.APPENDED
    """What the pipeline writes to."""
    anew: bool = False
    """Whether each fault needs a new pipeline, as the steps depend on the records."""

    @property
    def alone(self) -> bool:
        """Return whether a scene can be used only once."""
        return self.anew or bool(self.first) or self.empty


def planning(scene: Scene, request: Request) -> Scenario:
    """Return a plan that is about to run."""
    run = scene.run()
    plan = Plan(run=run, request=request)
    return Scenario(
        plan,
        (plan, Write(run=run, try_number=1), Advance(run=run)),
        lambda: bool(batches_of(scene, run.run_id)),
        asks_again=not isinstance(request, NewRecords),
    )


def writing(scene: Scene, request: Request) -> Scenario:
    """Plan what is requested; return the write that is about to run."""
    run = scene.run()
    assert scene.run_tasks(Plan(run=run, request=request)).batch_ids
    return Scenario(
        Write(run=run, try_number=1),
        (Write(run=run, try_number=2), Advance(run=run)),
        lambda: all(state != "planned" for _, state in batches_of(scene, run.run_id)),
    )


def commanding(command: Task, done: Callable[[], bool]) -> Scenario:
    """Return a command that is about to run."""
    return Scenario(command, (command,), done)


def batches_of(scene: Scene, run_id: str) -> list[tuple[int, str]]:
    """Return id and state of each batch of a run."""
    return scene.query(
        "SELECT batch_id, batch.state::text FROM tideline.run_batch r JOIN tideline.batch USING (batch_id)"
        " WHERE r.pipeline = %s AND r.run_id = %s ORDER BY 1",
        scene.pipeline.name,
        run_id,
    )


def planned(scene: Scene) -> int:
    """Plan one more batch, which is not written yet; return its id."""
    scene.arrive(3)
    return only_batch(scene, scene.run())


def only_batch(scene: Scene, run: Run) -> int:
    """Plan new records, which are one batch; return its id."""
    [batch_id] = scene.run_tasks(Plan(run=run, request=NewRecords())).batch_ids or []
    return batch_id


def left_behind(scene: Scene, run: Run, step: str, *, after: bool = False) -> None:
    """Let a writer of the run be killed before a step, or after it. It is presumed dead then."""
    # It sends no heartbeat: one that is still under way when the writer is killed would make it look alive.
    writer = scene.start(Write(run=run, try_number=1), timing=Timing(beat_seconds=1000))
    while not (writer.hear(PATIENCE_SECONDS) and writer.at and writer.at.name == step):
        writer.go()
    if after:
        writer.go()
        assert writer.hear(PATIENCE_SECONDS)
    writer.kill()
    scene.pass_time(3600)


def head_of(scene: Scene) -> int:
    """Return the head of partition 0."""
    [(head,)] = scene.query(
        "SELECT max(next_offset) FROM tideline.stream WHERE pipeline = %s AND state <> 'retired' AND partition = 0",
        scene.pipeline.name,
    )
    return int(head)


def pieces(start: int, end: int, *, replace: bool = False) -> Ranges:
    """Return a request for offsets of partition 0."""
    return Ranges(ranges=(NamedRange("ads", 0, OffsetRange(start, end)),), replace=replace)


def write_live(scene: Scene) -> Scenario:
    """Write records that have just arrived."""
    scene.arrive(11)
    return writing(scene, NewRecords())


def write_replay(scene: Scene) -> Scenario:
    """Replay all of one batch, and the end of the range of another one."""
    head = head_of(scene)
    scene.arrive(4)
    scene.load()
    return writing(scene, pieces(head - 2, head + 4, replace=True))


def write_redrive(scene: Scene) -> Scenario:
    """Re-drive rejects of which some pass now and others are rejected again."""
    scene.transform(corrected=False)
    scene.arrive(11)
    scene.load()
    scene.transform(corrected=True)
    return writing(scene, KeptRejects())


def holes_of(scene: Scene, hole: str) -> list[tuple[int, int]]:
    """Return the offsets that were skipped or lost."""
    return scene.query(
        "SELECT lower(offsets), upper(offsets) FROM tideline.coverage JOIN tideline.stream USING (stream_id)"
        " WHERE pipeline = %s AND hole::text = %s ORDER BY 1",
        scene.pipeline.name,
        hole,
    )


def state_of(scene: Scene, batch_id: int) -> str:
    """Return the state of a batch."""
    [(state,)] = scene.query("SELECT state::text FROM tideline.batch WHERE batch_id = %s", batch_id)
    return str(state)
