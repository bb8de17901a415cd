"""What the triggerer runs to wake a pipeline: it looks at the ends of the topics and says when they have moved. Never says where.

A hint, never a range's source: a run that it starts asks the broker itself, so an event that is lost or doubled changes nothing that is loaded.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any
from uuid import UUID

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from tideline.declaration import pipelines
from tideline.errors import TidelineError
from tideline.kafka.broker import Broker

log = logging.getLogger(__name__)

LOOK_EVERY_SECONDS = 10.0
"""Also the least time between two events: a topic that is written to all the time does not start a run for each record."""

Ends = Mapping[tuple[UUID, int], int]
"""The end of each partition, by topic id and number."""


class NewRecordsTrigger(BaseEventTrigger):  # type: ignore[misc]  # Airflow is not followed: the class has no type here
    """Fires when the topics of a pipeline have grown since it last looked, and once when it starts: what came while nobody looked counts as well.

    Airflow keeps class and arguments in its database and tells triggers apart by them, so they are the pipeline's name and nothing else: no address,
    no secret, nothing that another version of the declaration would change.
    """

    def __init__(self, pipeline: str) -> None:
        super().__init__()
        self.pipeline = pipeline

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """How to make this trigger again."""
        return f"{__name__}.{type(self).__name__}", {"pipeline": self.pipeline}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look and fire for as long as the triggerer lets it."""
        seen: Ends | None = None
        while True:
            # In a thread: the event loop belongs to all triggers, and a broker that is down answers after ten seconds.
            ends = await asyncio.to_thread(self._look)
            if ends is not None and ends != seen:
                yield TriggerEvent({"pipeline": self.pipeline})
                seen = ends
            await asyncio.sleep(LOOK_EVERY_SECONDS)

    def _look(self) -> Ends | None:
        """The ends now; None where nobody can tell. The declaration is read each time: it may have changed, and no trigger is restarted for that."""
        try:
            topics = Broker(pipelines.load_named(self.pipeline).source).topic_facts()
        except TidelineError as error:
            # To end with an error is no way to wait: the triggerer would start this again at once.
            log.warning("%s: cannot see whether there are new records: %s", self.pipeline, error)
            return None
        return {(topic.topic_id, facts.partition): facts.end for topic in topics for facts in topic.partitions}
