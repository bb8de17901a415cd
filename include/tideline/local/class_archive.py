"""Dumps the class-data archives that halve the start of a Spark driver and of a Kafka broker. Run once per set of jars, by set-up.

A small real job is run for it: what the archive is to hold has to be loaded once, Kafka's reader and Arrow too.
"""

import subprocess
import tempfile
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tideline import settings
from tideline.local import broker, program_environment, spark

_LOCAL = settings.PROJECT / ".local"
_TOPIC = "archive"


def dump() -> None:
    """Run the job against a broker of its own, and keep what both have loaded where later ones look for it."""
    of_spark, of_kafka = (archive.with_suffix(".jsa.new") for archive in (spark.ARCHIVE, broker.ARCHIVE))
    for draft in (of_spark, of_kafka):
        draft.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="archive-", dir=_LOCAL) as folder:
        kafka = broker.Broker(Path(folder) / "kafka", _LOCAL / "jars" / "kafka", archive_at_exit=of_kafka)
        kafka.start()
        try:
            _produce(kafka.bootstrap)
            subprocess.run(
                _submit(Path(folder) / "spark", of_spark, kafka.bootstrap),
                env=program_environment.clean(Path(folder)),
                cwd=folder,
                check=True,
            )
        finally:
            kafka.stop()
    of_spark.rename(spark.ARCHIVE)
    of_kafka.rename(broker.ARCHIVE)


def _produce(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})  # named, so that it lives until the topic exists
    admin.create_topics([NewTopic(_TOPIC, 1)])[_TOPIC].result()
    producer = Producer({"bootstrap.servers": bootstrap})
    for n in range(100):
        producer.produce(_TOPIC, value=f'{{"n": {n}}}')
    producer.flush()


def _submit(folder: Path, archive: Path, bootstrap: str) -> list[str]:
    properties = spark.configure(folder, java_options=f"-XX:ArchiveClassesAtExit={archive}")
    return [
        str(program_environment.BIN / "spark-submit"),
        "--master", "local[2]",
        "--properties-file", str(properties),
        str(Path(__file__).with_name("class_archive_job.py")),
        bootstrap,
        _TOPIC,
    ]  # fmt: skip


if __name__ == "__main__":
    dump()
