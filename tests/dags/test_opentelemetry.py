"""The counters and timers of the tasks reach a collector of OpenTelemetry where Airflow is configured for one."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

TASK = """
from airflow.sdk.observability.metrics import stats_utils
from airflow.sdk.observability import stats as airflows
airflows.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=True)  # as Airflow's task runner does
from tideline.airflow import stats
with stats.timed("plan", "orders"):
    stats.planned("orders", 3)
"""


class _Collector(BaseHTTPRequestHandler):
    """Keeps the metrics that are sent by OTLP over HTTP."""

    received: list[ExportMetricsServiceRequest]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.received.append(ExportMetricsServiceRequest.FromString(body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def collecting() -> Iterator[tuple[int, list[ExportMetricsServiceRequest]]]:
    """Run a collector. Yield its port, and what it has received."""
    received: list[ExportMetricsServiceRequest] = []
    handler = type("Collector", (_Collector,), {"received": received})
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port, received
        server.shutdown()


def test_a_collector_gets_the_counts_and_times_of_a_task_with_its_pipeline(tmp_path):
    with collecting() as (port, received):
        address = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}",
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        }
        airflow = {"AIRFLOW__METRICS__OTEL_ON": "True", "AIRFLOW_HOME": str(tmp_path)}
        environment = {**os.environ, **address, **airflow}
        subprocess.run([sys.executable, "-c", TASK], env=environment, check=True, timeout=60)
    found = {
        metric.name: metric
        for request in received
        for resource in request.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    [planned] = found["airflow.tideline.batches.planned"].sum.data_points
    assert (planned.as_int or planned.as_double) == 3
    assert {one.key: one.value.string_value for one in planned.attributes} == {"pipeline": "orders"}
    [timed] = found["airflow.tideline.plan.duration"].exponential_histogram.data_points
    assert (timed.count, timed.sum > 0) == (1, True)
    assert {one.key: one.value.string_value for one in timed.attributes} == {"pipeline": "orders", "outcome": "success"}
