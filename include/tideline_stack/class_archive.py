"""Dumps the class-data archives, which halve the start-up time of a Spark driver and of a Kafka broker. Set-up runs it once per set of jars.

An archive holds the classes that a JVM has loaded. So this module runs a small real job, which also loads Kafka's reader and Arrow.
"""

import subprocess
import tempfile
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tideline import settings
from tideline_stack import broker, program_environment, spark

_LOCAL = settings.PROJECT / ".local"
_TOPIC = "archive"


def dump() -> None:
    """Run the job against a temporary broker, and store the archives of both JVMs where later drivers and brokers look for them."""
    of_spark, of_kafka = (archive.with_suffix(".jsa.new") for archive in (spark.ARCHIVE, broker.ARCHIVE))
    for draft in (of_spark, of_kafka):
        draft.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="archive-", dir=_LOCAL) as folder:
        kafka = broker.LocalBroker(Path(folder) / "kafka", _LOCAL / "jars" / "kafka", archive_at_exit=of_kafka)
        kafka.start()
        try:
            _produce(kafka.bootstrap)
            _run_job(Path(folder), of_spark, kafka)
        finally:
            kafka.stop()
    of_spark.rename(spark.ARCHIVE)
    of_kafka.rename(broker.ARCHIVE)


def _run_job(folder: Path, archive: Path, kafka: broker.LocalBroker) -> None:
    """Run the job, and stop the broker as soon as the job does not need it: each JVM dumps for seconds, with one thread."""
    command = _submit(folder / "spark", archive, kafka.bootstrap)
    environment = program_environment.clean(folder)
    with subprocess.Popen(command, env=environment, cwd=folder, stdout=subprocess.PIPE, text=True) as job:
        assert job.stdout is not None  # noqa: S101 - for the type checker: PIPE is set above
        job.stdout.readline()  # the job prints a line when it has read the topic
        kafka.stop()
    if job.returncode:
        raise subprocess.CalledProcessError(job.returncode, command)


def _produce(bootstrap: str) -> None:
    # In a variable, so that the client is not garbage-collected before the topic exists.
    admin = AdminClient({"bootstrap.servers": bootstrap})
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
