"""Collects samples and writes them in the formats of OpenMetrics and of Prometheus."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from importlib.metadata import version
from itertools import accumulate

from prometheus_client import exposition
from prometheus_client.core import GaugeHistogramMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.openmetrics import exposition as openmetrics

from tideline.metrics.catalogue import BUCKETS, DURATION, DURATION_HELP, GAUGES, PREFIX

CONTENT_TYPE = openmetrics.CONTENT_TYPE_LATEST


@dataclass(slots=True)
class Sheet:
    """Samples by the name of their number."""

    gauges: dict[str, dict[tuple[str, ...], float]] = field(default_factory=lambda: defaultdict(dict))
    """By name and by the values of the labels. A second sample with the same labels replaces the first: two would make the whole text invalid."""
    durations: dict[str, list[float]] = field(default_factory=dict)
    """By pipeline, in seconds."""

    def put(self, name: str, value: float | datetime | None, *labels: object) -> None:
        """Add a sample of a gauge. None adds nothing: a number that is unknown must not look like a zero."""
        if len(labels) != len(GAUGES[name].labels):
            raise ValueError(f"{name}: expected labels {GAUGES[name].labels}, found {labels}")
        if value is not None:
            number = value.timestamp() if isinstance(value, datetime) else value
            self.gauges[name][tuple(map(str, labels))] = number

    def merge(self, other: "Sheet") -> None:
        """Add the samples of another sheet."""
        for name, samples in other.gauges.items():
            self.gauges[name].update(samples)
        self.durations.update(other.durations)

    def only(self, pipelines: Collection[str]) -> None:
        """Remove the samples of all other pipelines."""
        for name, samples in self.gauges.items():
            if "pipeline" in GAUGES[name].labels:
                for labels in [labels for labels in samples if labels[0] not in pipelines]:
                    del samples[labels]
        self.durations = {name: took for name, took in self.durations.items() if name in pipelines}

    def pipelines(self) -> set[str]:
        """Return the names of the pipelines that have samples."""
        found = {
            labels[0]
            for name, samples in self.gauges.items()
            if "pipeline" in GAUGES[name].labels
            for labels in samples
        }
        return found | set(self.durations)

    def collect(self) -> Iterator[Metric]:
        """Yield the families; this is what the writers of prometheus_client ask of a registry."""
        yield InfoMetricFamily(f"{PREFIX}build", "The version of Tideline.", value={"version": version("tideline")})
        for name, number in GAUGES.items():
            gauge = GaugeMetricFamily(PREFIX + name, number.help, labels=number.labels)
            for labels, value in sorted(self.gauges[name].items()):
                gauge.add_metric(labels, value)
            yield gauge
        histogram = GaugeHistogramMetricFamily(PREFIX + DURATION, DURATION_HELP, labels=("pipeline",))
        for pipeline, took in sorted(self.durations.items()):
            histogram.add_metric((pipeline,), list(_buckets(took)), gsum_value=sum(took))
        yield histogram

    def openmetrics(self) -> bytes:
        """Return the samples in OpenMetrics text."""
        return bytes(openmetrics.generate_latest(self))  # type: ignore[no-untyped-call]  # it has no types

    def prometheus(self) -> bytes:
        """Return the samples in Prometheus's older text format, which node_exporter reads from files."""
        return exposition.generate_latest(self)  # it asks the registry for `collect` only


def _buckets(took: Iterable[float]) -> Iterator[tuple[str, float]]:
    counts = [0] * (len(BUCKETS) + 1)
    for seconds in took:
        counts[bisect_left(BUCKETS, seconds)] += 1
    yield from zip([*(f"{bound}.0" for bound in BUCKETS), "+Inf"], accumulate(counts), strict=True)


OF_PARTITIONS: Mapping[str, Callable[[Iterable[float]], float]] = {
    "head_offset": sum,
    "end_offset": sum,
    "lag_records": sum,
    "held_records": sum,
    "lag_seconds": max,
    "headroom_ratio": min,
}
"""What a pipeline's number is made of those of its partitions by."""
NOT_SENT = {
    "ledger_up",
    "collection_seconds",
    "log_start_offset",
    "retention_seconds",
    "oldest_open_batch_timestamp_seconds",
    "outbox_oldest_timestamp_seconds",
}
"""Numbers of no pipeline, those whose sum says nothing, and times that would stay when there is nothing open any more."""


def totals(sheet: Sheet) -> Iterator[tuple[str, dict[str, str], float]]:
    """Yield name, tags and value of each number to send, of a sheet of one pipeline."""
    for name, number in GAUGES.items():
        samples = _with_full_headroom(sheet) if name == "headroom_ratio" else sheet.gauges[name]
        if name in OF_PARTITIONS and samples:
            [pipeline] = {labels[0] for labels in samples}
            yield name, {"pipeline": pipeline}, OF_PARTITIONS[name](samples.values())
        elif name not in NOT_SENT:
            for labels, value in samples.items():
                yield name, dict(zip(number.labels, labels, strict=True)), value


def _with_full_headroom(sheet: Sheet) -> Mapping[tuple[str, ...], float]:
    """Return the headroom by partition: 1 of those of which retention deletes nothing that is not loaded; nothing if one is not known."""
    known, kept = sheet.gauges["headroom_ratio"], sheet.gauges["retention_seconds"]
    full = {labels: 1.0 for labels, lag in sheet.gauges["lag_records"].items() if not lag or labels[:2] not in kept}
    return full | known if sheet.gauges["lag_records"].keys() <= full.keys() | known.keys() else {}
