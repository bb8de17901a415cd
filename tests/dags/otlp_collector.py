"""A collector of OpenTelemetry: it keeps the metrics that are sent to it by OTLP over HTTP."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest


@dataclass(slots=True)
class Collector:
    """What has arrived."""

    port: int
    received: list[ExportMetricsServiceRequest] = field(default_factory=list)

    @property
    def settings(self) -> dict[str, str]:
        """Return the variables with which Airflow sends its metrics here."""
        return {
            "AIRFLOW__METRICS__OTEL_ON": "True",
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self.port}",
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        }

    def metrics(self) -> dict[str, Any]:
        """Return each metric by its name, as it was last sent."""
        return {
            metric.name: metric
            for request in self.received
            for resource in request.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


@contextmanager
def collecting() -> Iterator[Collector]:
    """Run a collector on a free port."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            collector.received.append(ExportMetricsServiceRequest.FromString(body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        collector = Collector(server.server_port)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield collector
        server.shutdown()


def tags_of(point: Any) -> dict[str, str]:
    """Return the attributes of a data point."""
    return {one.key: one.value.string_value for one in point.attributes}
