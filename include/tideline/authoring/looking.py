"""Look at the newest records of a source, as its pipeline reads it."""

from tideline.declaration import Source
from tideline.domain.facts import NewestRecords
from tideline.kafka.broker import Broker
from tideline.kafka.newest_records import newest_records
from tideline.kafka.settings import client_settings

SECONDS = 30
"""The most time to look for records."""


def look(source: Source, count: int, *, seconds: float) -> NewestRecords:
    """Return about the newest `count` committed records of the source's topics, oldest first.

    Raises:
        FatalError: A topic does not exist, or the brokers refuse.
        RetryableError: The brokers did not answer.
    """
    broker = Broker(source)
    topics = broker.topic_facts()
    for error in broker.missing(topics).values():
        raise error
    return newest_records(client_settings(source.brokers), topics, count, seconds=seconds)
