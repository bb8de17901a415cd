"""Build the pipelines of a schedule from its beginning."""

from dataclasses import asdict
from functools import cache
from typing import Any

from faults.actions import OTHER, PIPELINE, TOPIC
from faults.schedules import Beginning, DeclaredVisits
from faults.visits import COLUMNS
from given_ledger.planners import declared
from tideline.declaration import Limits, Upkeep
from tideline.declaration.delta import DeltaSink
from tideline.declaration.pipelines import Pipeline
from tideline.declaration.state import Stateful


def pipelines(beginning: Beginning) -> dict[str, Pipeline]:
    """Return one pipeline, or two that share the table, by name."""
    one = _pipeline(beginning)
    if beginning.outside:
        return {PIPELINE: one.model_copy(update={"sink": DeltaSink(kind="delta", path="/lake")})}
    if beginning.visits is not None:
        return {PIPELINE: one.model_copy(update={"state": _state(beginning.visits)})}
    if not beginning.shared:
        return {PIPELINE: one}
    both = one.model_copy(update={"sink": one.sink.model_copy(update={"shared": True})})
    return {name: both.model_copy(update={"name": name}) for name in (PIPELINE, OTHER)}


@cache
def _state(visits: DeclaredVisits) -> Stateful:
    return Stateful.model_validate({"key": "user", "columns": COLUMNS, **asdict(visits)})


def _pipeline(beginning: Beginning) -> Pipeline:
    limits = Limits(
        batch_records=beginning.batch_records, batch_bytes=beginning.batch_bytes, run_batches=beginning.run_batches
    )
    update = {"limits": limits, "upkeep": Upkeep(events_days=beginning.events_days), "wake_on_records": True}
    return _declared(beginning.delivery, beginning.gaps, beginning.start).model_copy(update=update)


@cache
def _declared(delivery: str, gaps: str, start: Any) -> Pipeline:
    return declared("nowhere:9092", TOPIC, name=PIPELINE, start=start, source={"delivery": delivery, "gaps": gaps})
