"""What a topic and its brokers take, and how long the brokers remember what a group has committed."""

from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka.admin import ConfigEntry, ConfigResource

from tideline.kafka.connection import TIMEOUT_S, Connection
from tideline.sinks.outside import LEAST_DAYS

MAX_BYTES = 1_000_000
"""What is assumed where the settings of the topic may not be read: the default of clients, and a little less than that of brokers."""
_MEMORIES = {"offsets.retention.minutes": 60_000, "transactional.id.expiration.ms": 1}
"""Settings of a broker, and the milliseconds of their unit. They count from the last commit of a group, or of a transactional id."""
_DAY_MS = 86_400_000
_SURE = 5 / 7
"""The part of a broker's memory that is relied on: five days of the seven that are the default."""
_REQUEST = "socket.request.max.bytes"
_REQUEST_BYTES = 104_857_600
_OF_A_REQUEST = 16_384
"""Bytes of a request besides its records, with room to spare."""
_CLIENT_BYTES = 1_000_000_000
"""The largest record that the client sends, whatever the topic takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLimits:
    """What limits the records of a topic."""

    cluster_id: str
    max_bytes: int
    """The largest batch of records that it takes."""
    compacted: bool
    """Whether each record needs a key."""
    memory_days: float | None
    """After how many days without a commit the brokers forget a group. None if the user may not read their settings."""

    @property
    def sure_days(self) -> float:
        """How long what a group has committed is sure to be found. Where the settings may not be read, the least that is supported counts."""
        return _SURE * (LEAST_DAYS if self.memory_days is None else self.memory_days)


def limits_of(connection: Connection, topic: str) -> TopicLimits:
    """Return what limits the records of a topic that exists.

    Raises:
        FatalError: The user may not ask for the cluster.
        RetryableError: The brokers did not answer.
    """
    asked = connection.admin.describe_configs(
        [ConfigResource(ConfigResource.Type.TOPIC, topic)], request_timeout=TIMEOUT_S
    )
    # Without DescribeConfigs, the brokers' defaults are assumed: a larger record fails the transaction, and nothing is lost.
    settings: Mapping[str, ConfigEntry] = next(iter(connection.existing(asked, readable_only=True).values()), {})
    cluster = connection.results({"cluster": connection.admin.describe_cluster(request_timeout=TIMEOUT_S)})["cluster"]
    brokers = _brokers(connection, [node.id for node in cluster.nodes])
    return TopicLimits(
        cluster_id=str(cluster.cluster_id),
        max_bytes=min(
            int(settings["max.message.bytes"].value) if settings else MAX_BYTES,
            min(_values(brokers, _REQUEST), default=_REQUEST_BYTES) - _OF_A_REQUEST,
            _CLIENT_BYTES,
        ),
        compacted="compact" in str(settings["cleanup.policy"].value) if settings else False,
        memory_days=_memory_days(brokers),
    )


def _brokers(connection: Connection, numbers: list[int]) -> list[Mapping[str, ConfigEntry]]:
    """Return the settings of each broker; nothing if the user may not read them."""
    found: dict[ConfigResource, Mapping[str, ConfigEntry]] = {}
    for number in numbers:  # each is asked about itself, in a request of its own
        resource = ConfigResource(ConfigResource.Type.BROKER, str(number))
        futures = connection.admin.describe_configs([resource], request_timeout=TIMEOUT_S)
        found |= connection.existing(futures, readable_only=True)
    return list(found.values())


def _values(brokers: list[Mapping[str, ConfigEntry]], name: str) -> list[int]:
    return [int(entries[name].value) for entries in brokers if name in entries and entries[name].value is not None]


def _memory_days(brokers: list[Mapping[str, ConfigEntry]]) -> float | None:
    """Return the shortest memory of all brokers: any of them may be the coordinator of a group."""
    found = [value * unit for name, unit in _MEMORIES.items() for value in _values(brokers, name)]
    return min(found) / _DAY_MS if found else None
