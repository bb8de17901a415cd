"""Servers that clients reach over proxies, which cut their connections."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from faults.jobs.crashing_servers import Servers
from servers.cutting_proxy import CuttingProxy
from tideline_stack import ports


class ProxiedServers:
    """Proxies between clients and servers: executors reach Postgres only over one, and all clients Kafka only over the other.

    Args:
        folder: A folder for the servers.
    """

    def __init__(self, folder: Path) -> None:
        kafka = ports.choose()
        self.servers = Servers(folder, kafka={"advertised.listeners": f"PLAINTEXT://{ports.LOOPBACK}:{kafka}"})
        self._kafka_port = kafka

    @contextmanager
    def running(self) -> Iterator["ProxiedServers"]:
        """Start the servers and the proxies, and stop them at the end."""
        broker = f"postgresql://{self.servers.bootstrap}/none"
        with (
            CuttingProxy(broker, port=self._kafka_port) as self.kafka,
            self.servers.running(),
            CuttingProxy(self.servers.url) as self.postgres,
        ):
            yield self

    def variables(self) -> dict[str, str]:
        """Return the environment variables of all clients. They hold a password."""
        return self.servers.variables() | {"TIDELINE_STAGER_URL": self.postgres.url}
