"""Builds the report of offsets that are not loaded: holes, and offsets before the start of a stream."""

from collections.abc import Iterable

from tideline.domain.offsets import OffsetRange, subtract
from tideline.inspection.brokers import Answer, ask, declaration
from tideline.ledger import queries
from tideline.ledger.queries import Row
from tideline.ledger.sessions import looking
from tideline.reports.report import Grid, Report, safe


def coverage(name: str) -> Report:
    """Show the offsets between start and head that no batch has loaded, and those before the start that Kafka still holds."""
    with looking() as session:
        pipeline = declaration(session, name)
        accounted = queries.coverage(session, name)
        holes = queries.holes(session, name)
    answer = ask(pipeline, {row["topic"] for row in accounted})
    rows = [*holes, *_before_start(accounted, answer), *_missing(accounted)]
    rows.sort(key=lambda row: (row["topic"], row["partition"], row["start_offset"]))
    grid = Grid(
        columns=("topic", ">partition", ">offsets", ">count", "what", "reason", "who", "when"),
        rows=[
            (
                row["topic"],
                str(row["partition"]),
                str(OffsetRange(row["start_offset"], row["end_offset"])),
                row["end_offset"] - row["start_offset"],
                row["hole"],
                safe(row["reason"]),
                row["decided_by"],
                row["recorded_at"],
            )
            for row in rows
        ],
        empty=f"{name}: no holes",
    )
    tiled = all(not row["missing"] for row in accounted)
    document = {
        "pipeline": name,
        "holes": rows,
        "streams": accounted,
        "tiles": tiled,
        "broker_answered": answer.problem is None,
    }
    return Report(
        document=document,
        parts=[grid, _summary(accounted, tiled=tiled)],
        problem=answer.problem,
        exit_code=0 if tiled else 30,
    )


def _before_start(accounted: Iterable[Row], answer: Answer) -> Iterable[Row]:
    """Yield the offsets before a start that Kafka holds and that are not loaded. Only a backfill or a replay loads them."""
    for row in accounted:
        facts = answer.facts(row["topic_id"], row["partition"])
        if facts and facts.log_start < row["start_offset"]:
            loaded = [OffsetRange(start, end) for start, end in row["before_start"]]
            for piece in subtract(OffsetRange(facts.log_start, row["start_offset"]), loaded):
                yield _hole(row, piece.start, piece.end, "before start", f"the stream began at {row['start_offset']}")


def _missing(accounted: Iterable[Row]) -> Iterable[Row]:
    for row in accounted:
        for start, end in row["missing"]:
            yield _hole(row, start, end, "missing", "no batch and no hole accounts for it: the ledger is damaged")


def _hole(row: Row, start: int, end: int, hole: str, reason: str) -> Row:
    return {
        "stream_id": row["stream_id"],
        "topic": row["topic"],
        "partition": row["partition"],
        "start_offset": start,
        "end_offset": end,
        "hole": hole,
        "reason": reason,
        "decided_by": None,
        "recorded_at": None,
    }


def _summary(accounted: list[Row], *, tiled: bool) -> str:
    if not accounted:
        return "No streams yet; the first plan begins them."
    names = ("n_loaded", "n_skipped", "n_lost", "n_rewound")
    loaded, skipped, lost, rewound = (sum(row[name] for row in accounted) for name in names)
    sums = f"{loaded:,} offsets loaded, {skipped:,} skipped, {lost:,} lost"
    sums += f", {rewound:,} rewound" if rewound else ""
    if tiled:
        return f"Coverage tiles [start, head) of all {len(accounted)} streams: {sums}."
    n_broken = sum(bool(row["missing"]) for row in accounted)
    return f"Coverage does NOT tile [start, head) of {n_broken} of {len(accounted)} streams: {sums}."
