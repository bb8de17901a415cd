"""An upsert into a table with a million keys compared with an append of the same records into an empty table."""

import statistics
from collections.abc import Callable
from uuid import uuid4

import psycopg2

from benchmarks import rivals
from benchmarks.scene import PARTITIONS, RECORDS, Scene, in_turns, table
from tideline import settings
from tideline.declaration import pipelines
from tideline.kafka.broker import Broker

KEYS = 1_000_000
ROUNDS = 3
ASKED = 0.6
TITLE = f"Upsert into a table of {KEYS:,} keys"


def measure(scene: Scene) -> list[str]:
    """Return the section's lines."""
    assert scene.spark
    topic = scene.topic(RECORDS, PARTITIONS)
    ways: dict[str, Callable[[], float]] = {
        "append": scene.loader("appended", topic),
        "upsert": Upserting(
            settings.ledger_url(), rivals.declare_upsert(scene.folder / "pipelines" / "upserted", topic)
        ),
    }
    seconds = in_turns(ways, rounds=ROUNDS)
    ratios = [one / other for one, other in zip(seconds["append"], seconds["upsert"], strict=True)]
    rates = {"append": 1.0, "upsert": statistics.median(ratios)}
    return [
        f"The write task over {RECORDS:,} records in {PARTITIONS} partitions, claim to published, `local[2]`, {ROUNDS} rounds.",
        f"Append fills an empty table. Upsert replaces rows of a table that holds {KEYS:,} keys: each record updates a row.",
        "",
        *table(
            ("mode", "median, s", "records/s (median)", "rate relative to append in the same round", "asked"),
            (
                (
                    name,
                    f"{statistics.median(found):.2f}",
                    f"{RECORDS / statistics.median(found):,.0f}",
                    f"{rates[name]:.2f}",
                    "" if name == "append" else f"at least {ASKED}",
                )
                for name, found in seconds.items()
            ),
        ),
    ]


class Upserting:
    """The write task of an upsert pipeline: a call loads the whole topic into a table that has all its keys already.

    Args:
        url: libpq URI of the ledger.
        pipeline: What to load.
    """

    def __init__(self, url: str, pipeline: pipelines.Pipeline) -> None:
        self._url = url
        self._pipeline = pipeline
        self._round = 0

    def __call__(self) -> float:
        """Return the seconds from claim to publication."""
        self._round += 1
        name = f"upserted_round_{self._round}"
        sink = self._pipeline.table_sink.model_copy(update={"shared": True})
        pipeline = self._pipeline.model_copy(update={"name": name, "sink": sink})
        self._fill(f"before_round_{self._round}")
        return rivals.written(self._url, pipeline)

    def _fill(self, name: str) -> None:
        """Fill a new table with keys of an earlier incarnation of the topic, so that every record that is loaded is newer."""
        [topic] = self._pipeline.source.topics or ()
        cluster = Broker(self._pipeline.source).topic_facts()[0].cluster_id
        bound = {"name": name, "topic": topic, "cluster": cluster, "id": uuid4(), "keys": KEYS}
        connection = psycopg2.connect(self._url)
        try:
            with connection, connection.cursor() as cursor:
                cursor.execute("DROP TABLE IF EXISTS bench.upserted, bench.upserted__deleted")
                cursor.execute((self._pipeline.folder / "target.sql").read_text())
                cursor.execute("INSERT INTO tideline.pipeline (pipeline) VALUES (%(name)s)", bound)
                cursor.execute(
                    "INSERT INTO tideline.stream (pipeline, cluster_id, topic, topic_id, partition, start_offset, next_offset, state)"
                    " VALUES (%(name)s, %(cluster)s, %(topic)s, %(id)s, 0, 0, 0, 'retired')",
                    bound,
                )
                cursor.execute(
                    "INSERT INTO bench.upserted SELECT lpad(to_hex(n), 32, '0'), n, 'user-' || n, 'site-' || n || '/slot-1/0000000', 'DE', 'phone',"
                    " n %% 20000, now(), %(id)s, 0, n, 0 FROM generate_series(0, %(keys)s - 1) AS n",
                    bound,
                )
            connection.autocommit = True
            connection.cursor().execute("VACUUM (ANALYZE) bench.upserted")
        finally:
            connection.close()
