"""Play, heal and check one schedule."""

import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

from faults import records
from faults.checker import violations
from faults.checker.facts import Expected, Found, Record, Stream
from faults.checker.visits import Rules
from faults.memory import found
from faults.recovery import JammedError, decide, end_faults, load_alone
from faults.schedule_runner import Play
from faults.schedules import Schedule
from faults.simulation.liveness import held_up, unnoticed
from faults.simulation.simulated_folding import REFUSING, version
from faults.simulation.simulated_kafka import SimulatedKafka
from faults.simulation.tally import Tally
from faults.simulation.world import TABLE, World
from tideline.declaration.pipelines import Pipeline


@dataclass(frozen=True, slots=True)
class Problem:
    """A violation."""

    law: str
    text: str

    def __str__(self) -> str:
        return f"{self.law}: {self.text}"


class SimulatedTruth:
    """The records that the simulated Kafka held: a function of the coordinates."""

    def __init__(self, kafka: SimulatedKafka, expected: Callable[[int, int, int], Expected]) -> None:
        self._expected = expected
        self.end = kafka.end

    def records(self, stream: Stream, start: int, end: int) -> Iterator[Record]:
        return records.records(records.incarnation_of(stream.topic_id), stream.partition, start, end)

    def expected(self, stream: Stream, record: Record) -> Expected:
        incarnation = records.incarnation_of(stream.topic_id)
        return self._expected(incarnation, stream.partition, record.offset)


def folded_by(pipeline: Pipeline) -> Rules | None:
    """Return the rules of a stateful pipeline as the checker needs them."""
    if pipeline.state is None:
        return None
    return Rules(
        lateness=timedelta(minutes=pipeline.state.lateness_minutes),
        rejects_late=pipeline.state.late == "reject",
        resets=pipeline.state.on_gap == "reset",
        refusing=frozenset({version(REFUSING)}),
    )


def simulate(schedule: Schedule, tally: Tally) -> list[Problem]:
    """Play a schedule and return the problems found."""
    return simulate_in(World(schedule.beginning, tally), schedule)


def simulate_in(world: World, schedule: Schedule) -> list[Problem]:
    """Play a schedule in a world of its own and return the problems found."""
    play, tally = Play(world), world.tally
    world.airflow.runs = play.runs
    with world.patched():
        try:
            for operation in schedule.operations:
                play.do(operation)
                if problems := _problems_so_far(world):
                    return problems
            end_faults(play)
            tally.rounds += load_alone(play)
            if problems := _problems_so_far(world) or _liveness_problems(world):
                return problems
            tally.rounds += decide(play, world)
            return _problems_so_far(world) or final_problems(world)
        except JammedError as error:
            return _problems_so_far(world) or [Problem("jammed", str(error))]
        finally:
            tally.schedules += 1
            tally.operations.update(type(operation).__name__ for operation in schedule.operations)
            for process in world.processes:
                process.kill()


def _liveness_problems(world: World) -> list[Problem]:
    held = [Problem("held up", text) for text in held_up(world)]
    return held + [Problem("unnoticed", text) for text in unnoticed(world)]


def _problems_so_far(world: World) -> list[Problem]:
    unexpected = [
        Problem(f"unexpected {type(error).__name__}", "".join(traceback.format_exception(error)))
        for error in world.scheduler.unexpected
    ]
    return unexpected + [Problem("on the way", text) for text in world.broken]


def final_problems(world: World) -> list[Problem]:
    """Check everything after the end: no work is left."""
    problems = []
    for pipeline, there, truth in facts_at_the_end(world):
        pruned = pipeline.upkeep.events_days is not None
        seen = violations(there, truth, quiet=True, pruned=pruned, visits=folded_by(pipeline))
        problems += [Problem(violation.law, str(violation)) for violation in seen]
    return problems


def facts_at_the_end(world: World) -> Iterator[tuple[Pipeline, Found, SimulatedTruth]]:
    """Yield each pipeline with the facts that the checker compares, after all that was in flight has landed."""
    if world.outside is not None:
        world.outside.land_all()
    world.announce_the_rest()
    for number, pipeline in enumerate(world.declared.values()):
        expected = partial(world.expected, corrected=not world.spark.refuses, share=(number, len(world.declared)))
        there = replace(
            found(world.database, pipeline.name, TABLE, outside=world.outside.rows if world.outside else None),
            asset_events=world.asset_events(pipeline.name),
            commits=list(world.outside.commits.values()) if world.outside else None,
        )
        yield pipeline, there, SimulatedTruth(world.kafka, expected)
