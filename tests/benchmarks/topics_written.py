"""The same records into another topic, in one transaction for each batch, in JSON, Avro and Protobuf, compared with an append to a Postgres table."""

import statistics
from collections.abc import Callable
from typing import Literal, get_args

import records
from benchmarks import formats, rivals
from benchmarks.scene import PARTITIONS, RECORDS, ROUNDS, Scene, in_turns, table
from given_topics.output_topics import committed_count
from servers.schema_registry import SchemaRegistry
from tideline import settings
from tideline.declaration import pipelines
from tideline.declaration.kafka_sink import KafkaSink, WrittenValue
from tideline.declaration.registry import Registry

TITLE = f"{RECORDS:,} records of about 260 bytes, {PARTITIONS} partitions, into another topic"
ASKED = 0.7
Kind = Literal["json", "avro", "protobuf"]


class IntoTopic:
    """The write task: a call loads the whole topic into a new topic, exactly once for readers of committed records.

    Args:
        pipeline: What to load.
        bootstrap: The address of the broker.
        kind: The format of the values.
        registry: Has their schema, which is none for JSON.
    """

    def __init__(self, pipeline: pipelines.Pipeline, bootstrap: str, kind: Kind, registry: SchemaRegistry) -> None:
        self._pipeline = pipeline
        self._bootstrap = bootstrap
        self._kind: Kind = kind
        self._registry = registry
        self._round = 0

    def __call__(self) -> float:
        """Return the seconds from claim to publication."""
        self._round += 1
        name = f"{self._pipeline.name}_{self._kind}_{self._round}"
        out = records.create(self._bootstrap, partitions=PARTITIONS)
        sink = KafkaSink(kind="kafka", topic=out, key=("user_id",))
        if self._kind != "json":
            self._registry.register(f"{out}-value", formats.schema(self._kind, 0), kind=self._kind.upper())
            value = WrittenValue(format=self._kind, message="Impression" if self._kind == "protobuf" else None)
            sink = sink.model_copy(update={"value": value, "registry": Registry(urls=(self._registry.url,))})
        seconds = rivals.written(settings.ledger_url(), self._pipeline.model_copy(update={"name": name, "sink": sink}))
        assert committed_count(self._bootstrap, out) == RECORDS
        return seconds


def measure(scene: Scene) -> list[str]:
    """Return the section's lines."""
    assert scene.spark
    topic = scene.topic(RECORDS, PARTITIONS)
    pipeline = rivals.declare(scene.folder / "pipelines" / "into_topic", topic)
    with SchemaRegistry() as registry:
        ways: dict[str, Callable[[], float]] = {
            "append": scene.loader("beside_topic", topic),
            **{
                f"kafka, {kind}": IntoTopic(pipeline, scene.stack.broker.bootstrap, kind, registry)
                for kind in get_args(Kind)
            },
        }
        seconds = in_turns(ways)
    rates = {
        name: (
            f"{statistics.median(one / other for one, other in zip(seconds['append'], found, strict=True)):.2f}",
            f"at least {ASKED}" if name == "kafka, json" else "",
        )
        for name, found in seconds.items()
    }
    return [
        f"The write task, claim to published, one warm JVM, `local[2]`, {ROUNDS} rounds after a warm-up. Keys are hashed as Java does.",
        "",
        *table(
            (
                "sink",
                "best, s",
                "median, s",
                "records/s (median)",
                "rate relative to append in the same round",
                "asked",
            ),
            (
                (
                    name,
                    f"{min(found):.2f}",
                    f"{statistics.median(found):.2f}",
                    f"{RECORDS / statistics.median(found):,.0f}",
                    *rates[name],
                )
                for name, found in seconds.items()
            ),
        ),
    ]
