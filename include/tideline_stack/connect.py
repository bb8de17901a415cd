"""Kafka Connect with Debezium's connector for Postgres: a real source of changes, which can be killed, and then sends again."""

import os
import signal
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from psycopg2.extensions import parse_dsn

from tideline import settings
from tideline.deployment import java_program, secret
from tideline.errors import FatalError
from tideline_stack import ports
from tideline_stack.processes import Child

_JARS = settings.PROJECT / ".local" / "jars" / "connect"
_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx384m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")


@dataclass(kw_only=True)
class Connect:
    """A standalone worker with one connector, whose place is in a file. It is saved seldom, so that who is killed sends much again."""

    folder: Path
    bootstrap: str
    url: str = field(repr=False)  # holds a password
    """libpq URI of the source database."""
    table: str
    """The table with its schema."""
    partitions: int
    _child: Child | None = None

    @property
    def topic(self) -> str:
        """Return the topic of the changes."""
        return f"{self.folder.name}.{self.table}"

    @property
    def slot(self) -> str:
        """Return the name of its replication slot."""
        return f"{self.folder.name}_slot"

    def start(self) -> None:
        """Start the worker."""
        self.folder.mkdir(parents=True, exist_ok=True)
        worker, connector = self.folder / "worker.properties", self.folder / "connector.properties"
        worker.write_text(_properties(self._worker()))
        connector.write_text(_properties(self._connector()))
        secret.write(self.folder / "password", parse_dsn(self.url)["password"])
        program = "org.apache.kafka.connect.cli.ConnectStandalone"
        command = [java_program.find(), *_OPTIONS, "-cp", f"{_JARS}/*", program, str(worker), str(connector)]
        self._child = Child("Kafka Connect", command, log=self.folder / "connect.log", cwd=self.folder)

    def kill(self) -> None:
        """End it without a chance to save its place. Do nothing when it is not running."""
        if self._child:
            os.kill(self._child.pid, signal.SIGKILL)
            self._child.stop()
            self._child = None

    def wait_for_saved_place(self, *, seconds: float) -> None:
        """Wait until it has saved a place behind its snapshot, from where it goes on when it was killed.

        Without one it makes another snapshot, and rows that were deleted before that are never told of: they would stay in the output.

        Raises:
            RetryableError: The worker has ended, or has saved none in time.
        """

        def has_place() -> bool:
            saved = self._saved.read_bytes() if self._saved.exists() else b""
            return b'"lsn_proc"' in saved and b'"snapshot"' not in saved

        self._running().wait_until(has_place, seconds=seconds)

    def wait_for(self, text: bytes, *, n_keys: int, seconds: float) -> None:
        """Wait until values with this text were sent for so many keys. What was changed before them is then there as well.

        All of them: when each partition has one, others may still be on their way.

        Raises:
            RetryableError: The worker has ended, or has not sent it in time.
        """
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": "none", "enable.auto.commit": False, "log_level": 0}
        )
        seen: set[bytes | None] = set()

        def has_all() -> bool:
            if not consumer.assignment():
                partitions = consumer.list_topics(self.topic, timeout=10).topics[self.topic].partitions
                consumer.assign([TopicPartition(self.topic, number, OFFSET_BEGINNING) for number in partitions])
            for message in consumer.consume(1_000, timeout=0.2) if consumer.assignment() else ():
                if message.error() is None and text in (message.value() or b""):
                    seen.add(message.key())
            return len(seen) == n_keys

        try:
            self._running().wait_until(has_all, seconds=seconds)
        finally:
            consumer.close()

    @property
    def _saved(self) -> Path:
        """The file with its place in the log of the database."""
        return self.folder / "offsets"

    def _running(self) -> Child:
        if self._child is None:
            raise FatalError("Kafka Connect is not running", next_step="call start() first")
        return self._child

    def _worker(self) -> dict[str, str]:
        json = "org.apache.kafka.connect.json.JsonConverter"
        return {
            "bootstrap.servers": self.bootstrap,
            "key.converter": json,
            "value.converter": json,
            "key.converter.schemas.enable": "true",
            "value.converter.schemas.enable": "true",
            "offset.storage.file.filename": str(self._saved),
            "offset.flush.interval.ms": "5000",
            "listeners": f"http://{ports.LOOPBACK}:{ports.choose()}",
            "topic.creation.enable": "true",
            "plugin.discovery": "only_scan",
            "config.providers": "dir",
            "config.providers.dir.class": "org.apache.kafka.common.config.provider.DirectoryConfigProvider",
        }

    def _connector(self) -> dict[str, str]:
        source = parse_dsn(self.url)
        return {
            "name": "source",
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "tasks.max": "1",
            "plugin.name": "pgoutput",
            "database.hostname": source["host"],
            "database.port": source["port"],
            "database.user": source["user"],
            "database.password": f"${{dir:{self.folder}:password}}",
            "database.dbname": source["dbname"],
            "topic.prefix": self.folder.name,
            "table.include.list": self.table,
            "publication.autocreate.mode": "filtered",
            "slot.name": self.slot,
            "topic.creation.default.replication.factor": "1",
            "topic.creation.default.partitions": str(self.partitions),
            "poll.interval.ms": "50",
        }


def _properties(given: dict[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in given.items())
