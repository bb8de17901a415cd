"""Sums up the numbers of partitions, for StatsD and OpenTelemetry: a pipeline has there as many series as without partitions.

These systems keep the last value of a gauge. So what is missing from the sheet when all is well is either sent as a number that says so, or not sent.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from tideline.numbers.catalogue import GAUGES
from tideline.numbers.sheet import Sheet

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
