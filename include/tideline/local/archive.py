"""Dumps the class-data archive that halves the start of a Spark driver. Run once per set of jars, by set-up.

A small real job is run for it: what the archive is to hold has to be loaded once, Kafka's reader and Arrow too.
"""

import subprocess
import tempfile
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tideline import settings
from tideline.local import spark, surroundings
from tideline.local.broker import Broker

_LOCAL = settings.PROJECT / ".local"
_TOPIC = "archive"


def dump() -> None:
    """Run the job against a broker of its own and keep the archive as `.local/spark.jsa`."""
    draft = _LOCAL / "spark.jsa.new"
    draft.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="archive-", dir=_LOCAL) as folder:
        broker = Broker(Path(folder) / "kafka", _LOCAL / "jars" / "kafka")
        broker.start()
        try:
            _produce(broker.bootstrap)
            subprocess.run(
                _submit(Path(folder) / "spark", draft, broker.bootstrap),
                env=surroundings.clean(Path(folder)),
                cwd=folder,
                check=True,
            )
        finally:
            broker.stop()
    draft.rename(_LOCAL / "spark.jsa")


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
        str(surroundings.BIN / "spark-submit"),
        "--master", "local[2]",
        "--properties-file", str(properties),
        str(Path(__file__).with_name("archive_job.py")),
        bootstrap,
        _TOPIC,
    ]  # fmt: skip


if __name__ == "__main__":
    dump()
