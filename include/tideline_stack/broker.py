"""A real Kafka broker on loopback: KRaft mode, one JVM, a plain and a SASL listener. Owns its log folder and its password."""

import base64
import secrets
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tideline import settings
from tideline.deployment import java_program, secret
from tideline.errors import FatalError
from tideline_stack import ports
from tideline_stack.processes import Child

ARCHIVE = settings.PROJECT / ".local" / "kafka.jsa"
# Only the C1 compiler and the serial garbage collector: most brokers here live for minutes, on a machine that has other work.
# With the class-data archive, the two JVMs of a new broker (format, server) take a third of the processor time that they take with default options.
_JAVA_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Djava.awt.headless=true")
_DEFAULTS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listener.security.protocol.map": (
        "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT"
    ),
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    # There is one node: with the default of three replicas Kafka could not create its internal topics.
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # The default of fifty partitions each would only cost start-up time.
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    # An idle broker would take 2.3 % of a processor, and several run for half an hour beside each other in the tests. A third of it is for records
    # that say twice a second that there is nothing to say; the defaults also have more threads than a small machine has a use for.
    "metadata.max.idle.interval.ms": "0",
    "num.network.threads": "2",
    "num.io.threads": "3",
    "background.threads": "2",
    # A mistyped topic name is an error, not a new empty topic.
    "auto.create.topics.enable": "false",
}


class LocalBroker:
    """One broker in one folder; topics stay there between starts.

    Args:
        directory: The folder of its data, configuration, log and password.
        jars: The folder with Kafka's jars.
        port: The port of the plain listener; 0 means any free port.
        sasl_port: The port of the SASL listener; 0 means any free port.
        listeners: The addresses of more listeners, by protocol: SSL or SASL_SSL. `properties` must name their certificate.
        properties: Server properties that add to, or override, the defaults of this module.
        java_options: Options of its JVM that add to those of this module.
        archive_at_exit: The file to which the JVM dumps its loaded classes when the broker stops. By default nothing is
            dumped, and the JVM uses ARCHIVE if it exists.
        cluster_id: That of a cluster of several brokers; by default the broker is one of its own.
    """

    sasl_username = "tideline"

    def __init__(
        self,
        directory: Path,
        jars: Path,
        *,
        port: int = 0,
        sasl_port: int = 0,
        listeners: Mapping[str, str] | None = None,
        properties: Mapping[str, str] | None = None,
        java_options: Sequence[str] = (),
        archive_at_exit: Path | None = None,
        cluster_id: str | None = None,
    ) -> None:
        self.directory = directory.absolute()
        self._classpath = f"{jars.absolute()}/*"
        self._properties = dict(properties or {})
        self.listeners = dict(listeners or {})
        self._java_options = java_options
        self._archive_at_exit = archive_at_exit
        self._cluster_id = cluster_id
        self._child: Child | None = None
        self.port = port or ports.choose()
        self.sasl_port = sasl_port or ports.choose()

    @property
    def child(self) -> Child:
        """The running broker."""
        if self._child is None:
            raise FatalError("the Kafka broker is not running", next_step="call start() first")
        return self._child

    @property
    def bootstrap(self) -> str:
        """The address for clients without a password."""
        return f"{ports.LOOPBACK}:{self.port}"

    @property
    def sasl_bootstrap(self) -> str:
        """The address for clients that use SASL_PLAINTEXT with the mechanism PLAIN."""
        return f"{ports.LOOPBACK}:{self.sasl_port}"

    @property
    def sasl_password(self) -> str:
        """The password of `sasl_username`."""
        return secret.keep(self.directory / "password")

    def start(self) -> None:
        """Launch the broker and wait until it answers."""
        self.launch()
        self.wait()

    def launch(self) -> None:
        """Format the log folder on first use and start the JVM, without waiting until it answers."""
        properties = self._write_properties()
        formatted = self.directory / "formatted"
        if not formatted.exists():
            self._format(properties)
            formatted.touch()
        self._child = Child(
            "the Kafka broker",
            [
                *self._java("-Xms256m", "-Xmx1g", *self._archiving(), *self._java_options),
                "kafka.Kafka",
                str(properties),
            ],
            log=self.directory / "kafka.log",
            cwd=self.directory,
        )

    def wait(self) -> None:
        """Wait until a launched broker answers."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

        def answers() -> bool:
            try:
                return bool(admin.list_topics(timeout=0.5).brokers)
            except KafkaException:  # not listening yet, or not yet registered with the controller
                return False

        self.child.wait_until(answers, seconds=120)

    def stop(self) -> None:
        """Stop the broker; the topics stay. Do nothing when it is not running."""
        if self._child:
            self._child.stop()
            self._child = None

    def _write_properties(self) -> Path:
        controller = f"{ports.LOOPBACK}:{ports.choose()}"
        login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        listeners = {"PLAINTEXT": self.bootstrap, "SASL_PLAINTEXT": self.sasl_bootstrap, **self.listeners}
        properties = {
            **_DEFAULTS,
            "log.dirs": str(self.directory / "data"),
            "listeners": ",".join(f"{name}://{at}" for name, at in {**listeners, "CONTROLLER": controller}.items()),
            # Set here and not when the log is formatted, because the port may be different at the next start.
            "controller.quorum.voters": f"1@{controller}",
            **{
                f"listener.name.{name.lower()}.plain.sasl.jaas.config": (
                    f'{login} user_{self.sasl_username}="{self.sasl_password}";'
                )
                for name in listeners
                if name.startswith("SASL")
            },
            **self._properties,
        }
        self.directory.mkdir(parents=True, exist_ok=True)
        file = self.directory / "server.properties"
        secret.write(file, "".join(f"{name}={value}\n" for name, value in properties.items()))
        return file

    def _format(self, properties: Path) -> None:
        # The file `formatted` does not exist, so an earlier format may have been interrupted: begin with an empty folder.
        shutil.rmtree(self.directory / "data", ignore_errors=True)
        command = [
            *self._java("-Xmx256m", *_archived()),
            "kafka.tools.StorageTool",
            "format",
            "-t",
            self._cluster_id or new_cluster_id(),
            "-c",
            str(properties),
        ]
        log = self.directory / "format.log"
        Child("Kafka's storage tool", command, log=log, cwd=self.directory).finish(seconds=120)

    def _archiving(self) -> tuple[str, ...]:
        return (f"-XX:ArchiveClassesAtExit={self._archive_at_exit}",) if self._archive_at_exit else _archived()

    def _java(self, *options: str) -> list[str]:
        log = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true"]
        return [java_program.find(), *_JAVA_OPTIONS, *options, *log, "-cp", self._classpath]


def new_cluster_id() -> str:
    """Return a random id of a cluster. Its first letter is fixed, because an id that starts with "-" would be read as an option."""
    return base64.urlsafe_b64encode(b"T" + secrets.token_bytes(15)).decode().rstrip("=")


def _archived() -> tuple[str, ...]:
    """Return the JVM options that use the class-data archive, if there is one; the JVM ignores one that does not fit, and logs nothing."""
    if not ARCHIVE.exists():
        return ()
    return (f"-XX:SharedArchiveFile={ARCHIVE}", "-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off")
