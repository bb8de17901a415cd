"""A StatsD server of the tests: it keeps the packets that Airflow's processes send."""

import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

_LINE = re.compile(r"airflow\.(tideline\.[\w.]+)((?:,\w+=[^,:]+)*):([\d.e+-]+)\|(c|ms|g)")


@dataclass(frozen=True, slots=True)
class Sent:
    """One number with its tags."""

    name: str
    tags: dict[str, str]
    value: float
    kind: str


@dataclass(slots=True)
class Packets:
    """The numbers of Tideline that have arrived."""

    port: int
    sent: list[Sent] = field(default_factory=list)

    @property
    def settings(self) -> dict[str, str]:
        """Return the variables with which Airflow sends its metrics here."""
        metrics = {"STATSD_ON": "True", "STATSD_PORT": str(self.port), "STATSD_INFLUXDB_ENABLED": "True"}
        return {f"AIRFLOW__METRICS__{name}": value for name, value in metrics.items()}

    def of(self, pipeline: str, name: str) -> list[Sent]:
        """Return the numbers of that name, as soon as there is one; fail if none comes."""
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if found := [one for one in self.sent if (one.name, one.tags.get("pipeline")) == (name, pipeline)]:
                return found
            time.sleep(0.1)
        raise AssertionError(f"no {name} of {pipeline} among {sorted({one.name for one in self.sent})}")

    def all_of(self, pipeline: str) -> list[Sent]:
        """Return the numbers of a pipeline that were sent until now."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.sendto(b"airflow.tideline.last,pipeline=no_pipeline:1|c", ("127.0.0.1", self.port))
        self.of("no_pipeline", "tideline.last")
        return [one for one in self.sent if one.tags.get("pipeline") == pipeline]


@contextmanager
def receiving() -> Iterator[Packets]:
    """Receive packets on a free port."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        packets = Packets(server.getsockname()[1])
        threading.Thread(target=_receive, args=(server, packets), daemon=True).start()
        yield packets
        server.sendto(b"", server.getsockname())


def _receive(server: socket.socket, packets: Packets) -> None:
    while packet := server.recv(65_536):
        for name, tags, value, kind in _LINE.findall(packet.decode()):
            pairs = dict(tag.split("=", 1) for tag in tags.split(",") if tag)
            packets.sent.append(Sent(name, pairs, float(value), kind))
