"""Declare a pipeline whose output is a topic, and see what its readers see."""

import json
from collections.abc import Mapping
from typing import Any

from confluent_kafka.admin import AdminClient

import records
from given_topics.output_topics import committed_records, origins
from given_topics.topics import created
from loads.loading import COLUMNS, Loading
from tideline.ledger.attempts import Writer
from tideline.spark_jobs import write_batches


class TopicLoading(Loading):
    """One declared pipeline that writes a topic."""

    def declare_topic(
        self,
        topic: str,
        out: str,
        *,
        transform: str = "",
        limits: Mapping[str, int] | None = None,
        source: Mapping[str, object] | None = None,
        rejects: Mapping[str, object] | None = None,
        value: Mapping[str, object] | None = None,
        written: Mapping[str, object] | None = None,
        **sink: object,
    ) -> None:
        """Write the pipeline's folder; `written` holds the keys of `sink.value`, and `sink` more keys of that section."""
        declaration = {
            "description": "A test",
            "source": {
                "bootstrap_servers": {"env": "TIDELINE_KAFKA"},
                "topics": [topic],
                "value": value or {"format": "json", "columns": COLUMNS},
                **(source or {}),
            },
            "sink": {"kind": "kafka", "topic": out, **({"value": dict(written)} if written else {}), **sink},
            "limits": dict(limits or {}),
            "rejects": {"fail_above": 1.0, **(rejects or {})},
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "pipeline.yaml").write_text(json.dumps(declaration))  # JSON is YAML
        self.transform(transform)

    def write(self, run_id: str, batch_ids: list[int], *, try_number: int = 1) -> None:
        """Write the batches as one Spark job does, which ends with the letters."""
        writer = Writer(dag_id="test", run_id=run_id, task_id="write", try_number=try_number)
        with self.ledger() as ledger:
            write_batches.write_all(ledger, self.pipeline, batch_ids, writer)

    def produce(self, topic: str, count: int, *, first: int = 0, partitions: int = 1) -> None:
        """Send records with ascending ids."""
        values = [
            json.dumps({"id": number, "name": f"n{number}", "price": 1.25}) for number in range(first, first + count)
        ]
        records.produce(self.bootstrap, topic, values, partitions=partitions)

    def sent(self, out: str) -> list[tuple[bytes | None, Any]]:
        """Return key and parsed value of each committed record, partition by partition, each in order."""
        return [(one.key(), json.loads(one.value())) for one in committed_records(self.bootstrap, out)]

    def places(self, out: str) -> list[tuple[int, int]]:
        """Return partition and offset of the source record of each committed record, sorted; fail if the topic's id is another one."""
        known = {str(row[0]) for row in self.rows("SELECT topic_id FROM tideline.stream")}
        found = [origin.split("/") for origin in origins(self.bootstrap, out)]
        assert {origin[0] for origin in found} <= known
        return sorted((int(origin[1]), int(origin[2])) for origin in found)

    def expect(self, out: str, places: list[tuple[int, int]]) -> None:
        """Fail if the committed records come from other source records than these, or the ledger counts others."""
        assert self.places(out) == sorted(places)


def loading_of(loading: Loading) -> TopicLoading:
    """Return the fixture `loading`, for a pipeline that writes a topic."""
    return TopicLoading(folder=loading.folder, bootstrap=loading.bootstrap, url=loading.url, spark=loading.spark)


def output_of(admin: AdminClient, topic: str, partitions: int = 3, **config: str) -> str:
    """Create an output topic for the source topic."""
    return created(admin, f"{topic}_out", partitions=partitions, **config)
