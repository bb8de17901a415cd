"""A pipeline of orders on servers of a test: its topics, and its declaration."""

from collections.abc import Mapping

from confluent_kafka.admin import AdminClient

from faults.jobs import orders, read_back
from faults.jobs.crashing_servers import Servers
from faults.jobs.order_outputs import Output, Sink
from given_topics import topics

PARTITIONS = 3
_TRANSFORMS = {Sink.UPSERT: "frame", Sink.FOLDED: "processor"}


def create(name: str, servers: Servers, sink: Sink, limits: Mapping[str, int]) -> Output:
    """Create source topic, output topics and folder of a pipeline; return its output.

    Args:
        name: Of the pipeline, and of its topic.
        servers: Running servers.
        sink: What it writes to.
        limits: The section `limits` of its declaration.
    """
    output = Output(pipeline=name, sink=sink, lakes=servers.folder / "lakes")
    topics.created(AdminClient({"bootstrap.servers": servers.bootstrap}), name, partitions=PARTITIONS)
    read_back.create_topics(output, servers.bootstrap)
    transform = _TRANSFORMS.get(sink, "records")
    orders.declare(servers.pipelines / name, name, output, transform=transform, limits=dict(limits))
    return output
