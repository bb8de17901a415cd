"""A Kafka cluster of three brokers on loopback, each also a controller. Each can be killed and started again."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from given_topics.topics import until
from tideline import settings
from tideline_stack import ports
from tideline_stack.broker import LocalBroker, new_cluster_id

_BROKERS = 3
_JAVA = ("-Xms128m", "-Xmx256m")
_REPLICATED = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    # A broker that was killed is noticed after two seconds, and not after nine.
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "300",
    "replica.lag.time.max.ms": "3000",
    "unclean.leader.election.enable": "false",
}


class KafkaCluster:
    """Three brokers with replicated topics.

    Args:
        folder: The folder of all of them.
    """

    def __init__(self, folder: Path) -> None:
        controllers = {number: ports.choose() for number in range(1, _BROKERS + 1)}
        voters = ",".join(f"{number}@{ports.LOOPBACK}:{port}" for number, port in controllers.items())
        cluster_id = new_cluster_id()
        self._jars = settings.PROJECT / ".local" / "jars" / "kafka"
        self.brokers: dict[int, LocalBroker] = {}
        for number, controller in controllers.items():
            port = ports.choose()
            place = f"PLAINTEXT://{ports.LOOPBACK}:{port},CONTROLLER://{ports.LOOPBACK}:{controller}"
            own = {"node.id": str(number), "controller.quorum.voters": voters, "listeners": place}
            self.brokers[number] = LocalBroker(
                folder / f"broker-{number}",
                self._jars,
                port=port,
                properties={**_REPLICATED, **own},
                java_options=_JAVA,
                cluster_id=cluster_id,
            )

    @property
    def bootstrap(self) -> str:
        """Return the addresses of all brokers."""
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    @property
    def admin(self) -> AdminClient:
        """Return a new client. Keep it until its answers are there."""
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    @contextmanager
    def running(self) -> Iterator["KafkaCluster"]:
        """Start all brokers, and stop them at the end."""
        try:
            for broker in self.brokers.values():
                broker.launch()
            for broker in self.brokers.values():
                broker.wait()
            until(lambda: len(self.admin.list_topics(timeout=5).brokers) == _BROKERS)
            yield self
        finally:
            for broker in self.brokers.values():
                broker.stop()

    def leader(self, topic: str, partition: int = 0) -> int:
        """Return the number of the broker that leads a partition; -1 if there is none."""
        metadata = self.admin.list_topics(topic, timeout=20)
        return int(metadata.topics[topic].partitions[partition].leader)

    def in_sync(self, topic: str, partition: int = 0) -> set[int]:
        """Return the numbers of the replicas that have everything."""
        metadata = self.admin.list_topics(topic, timeout=20)
        return set(metadata.topics[topic].partitions[partition].isrs)

    def kill(self, number: int) -> None:
        """Send SIGKILL to a broker."""
        broker = self.brokers[number]
        process = psutil.Process(broker.child.pid)
        process.kill()
        psutil.wait_procs([process], timeout=60)
        broker.stop()

    def start(self, number: int) -> None:
        """Start a broker again."""
        self.brokers[number].start()

    def elect_whoever_is_there(self, topic: str, partition: int = 0) -> None:
        """Let a replica lead that may not have everything: what it lacks is lost."""
        allowed = ConfigEntry("unclean.leader.election.enable", "true", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[allowed])
        admin = self.admin
        for asked in admin.incremental_alter_configs([resource]).values():
            asked.result(timeout=30)
        place = TopicPartition(topic, partition)
        until(
            lambda: self.leader(topic, partition) != -1 or not self.admin.elect_leaders(ElectionType.UNCLEAN, [place])
        )
