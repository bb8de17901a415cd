"""The same records into another topic, in one transaction for each batch, compared with an append to a Postgres table."""

import statistics
from collections.abc import Callable

import records
from benchmarks import rivals
from benchmarks.scene import PARTITIONS, RECORDS, ROUNDS, Scene, in_turns, table
from given_topics.output_topics import committed_count
from tideline import settings
from tideline.declaration import pipelines
from tideline.declaration.kafka_sink import KafkaSink

TITLE = f"{RECORDS:,} records of about 260 bytes, {PARTITIONS} partitions, into another topic"
ASKED = 0.7


class IntoTopic:
    """The write task: a call loads the whole topic into a new topic, exactly once for readers of committed records.

    Args:
        pipeline: What to load.
        bootstrap: The address of the broker.
    """

    def __init__(self, pipeline: pipelines.Pipeline, bootstrap: str) -> None:
        self._pipeline = pipeline
        self._bootstrap = bootstrap
        self._round = 0

    def __call__(self) -> float:
        """Return the seconds from claim to publication."""
        self._round += 1
        name = f"{self._pipeline.name}_round_{self._round}"
        out = records.create(self._bootstrap, partitions=PARTITIONS)
        sink = KafkaSink(kind="kafka", topic=out, key=("user_id",))
        seconds = rivals.written(settings.ledger_url(), self._pipeline.model_copy(update={"name": name, "sink": sink}))
        assert committed_count(self._bootstrap, out) == RECORDS
        return seconds


def measure(scene: Scene) -> list[str]:
    """Return the section's lines."""
    assert scene.spark
    topic = scene.topic(RECORDS, PARTITIONS)
    pipeline = rivals.declare(scene.folder / "pipelines" / "into_topic", topic)
    ways: dict[str, Callable[[], float]] = {
        "append": scene.loader("beside_topic", topic),
        "kafka": IntoTopic(pipeline, scene.stack.broker.bootstrap),
    }
    seconds = in_turns(ways)
    ratio = statistics.median(one / other for one, other in zip(seconds["append"], seconds["kafka"], strict=True))
    rates = {"append": ("1.00", ""), "kafka": (f"{ratio:.2f}", f"at least {ASKED}")}
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
