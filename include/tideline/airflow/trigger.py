"""The Airflow trigger that wakes a pipeline: it polls the end offsets of the topics and fires when they have changed.

Its events carry no offsets. A run that it starts asks the broker for offsets itself. So a lost or duplicate event never changes what is loaded.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any
from uuid import UUID

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from tideline.airflow import secrets_backends
from tideline.declaration import pipelines
from tideline.errors import TidelineError
from tideline.kafka.broker import Broker

log = logging.getLogger(__name__)

LOOK_EVERY_SECONDS = 10.0
"""Time between two polls, and so the shortest time between two events. A busy topic does not start a run for each record."""

Ends = Mapping[tuple[UUID, int], int]
"""The end offset of each partition, by topic id and partition number."""


class NewRecordsTrigger(BaseEventTrigger):  # type: ignore[misc]  # mypy does not follow Airflow: the class is untyped here
    """Fires when end offsets of a pipeline's topics have changed since the last poll, and once when it starts.

    The first event covers records that arrived while no trigger was running. Airflow stores the class and the arguments in its database, and
    identifies triggers by them. So the only argument is the pipeline's name: no address, no secret, nothing that a changed declaration would change.
    """

    def __init__(self, pipeline: str) -> None:
        super().__init__()
        self.pipeline = pipeline

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments from which Airflow creates this trigger again."""
        return f"{__name__}.{type(self).__name__}", {"pipeline": self.pipeline}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Poll and fire until the triggerer ends this trigger."""
        secrets_backends.use()
        seen: Ends | None = None
        while True:
            # In a thread: all triggers share the event loop, and a call to a broker that is down blocks for ten seconds.
            ends = await asyncio.to_thread(self._end_offsets)
            if ends is not None and ends != seen:
                yield TriggerEvent({"pipeline": self.pipeline})
                seen = ends
            await asyncio.sleep(LOOK_EVERY_SECONDS)

    def _end_offsets(self) -> Ends | None:
        """Return the end offsets now, or None if they cannot be read.

        Reads the declaration each time, because it may have changed and Airflow does not restart triggers for that.
        """
        try:
            topics = Broker(pipelines.load_named(self.pipeline).source).topic_facts()
        except TidelineError as error:
            # Raising would not delay the next poll: the triggerer would restart this trigger at once.
            log.warning("%s: cannot see whether there are new records: %s", self.pipeline, error)
            return None
        return {(topic.topic_id, facts.partition): facts.end for topic in topics for facts in topic.partitions}
