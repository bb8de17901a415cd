"""Every number that Tideline shows to monitoring systems: its name, what it means, and its labels. docs/monitoring.md lists the same."""

from dataclasses import dataclass

PREFIX = "tideline_"
_STREAM = ("pipeline", "topic", "partition")
_PIPELINE = ("pipeline",)


@dataclass(frozen=True, slots=True)
class Number:
    """One family of samples."""

    help: str
    labels: tuple[str, ...] = ()


GAUGES = {
    "ledger_up": Number("1 if the ledger answered, else 0; then only numbers of the brokers follow."),
    "broker_up": Number(
        "1 if the pipeline's brokers answered in time, else 0; then its numbers of the brokers are missing.", _PIPELINE
    ),
    "declaration_valid": Number("1 if the pipeline's declaration can be read, 0 if it has mistakes.", _PIPELINE),
    "collection_seconds": Number("How long the answers took, by who was asked: ledger or brokers.", ("asked",)),
    "head_offset": Number("The next offset to load: everything before it is accounted for.", _STREAM),
    "end_offset": Number("The last stable offset of the partition.", _STREAM),
    "log_start_offset": Number("The oldest offset that the partition still has.", _STREAM),
    "lag_records": Number(
        "Offsets from the head to the last stable offset. Where a transaction hangs, to the high watermark.", _STREAM
    ),
    "held_records": Number(
        "Offsets from the first record of a transaction that is open for more than 15 minutes, by its timestamp, to the log end; 0 without one.",
        _STREAM,
    ),
    "lag_seconds": Number(
        "The age of the oldest record that is not loaded, by the record's timestamp; 0 if all is loaded. "
        "Of the 100 partitions of a pipeline with the largest lag.",
        _STREAM,
    ),
    "headroom_ratio": Number(
        "How much of the topic's retention time is left for the oldest record that is not loaded, at least: 0.75, 0.5, 0.25 or 0. "
        "Missing if all is loaded, or if age deletes nothing.",
        _STREAM,
    ),
    "retention_seconds": Number("The topic's retention time. Missing if age deletes nothing.", ("pipeline", "topic")),
    "streams": Number("Streams by state: active, stopped or retired.", ("pipeline", "state")),
    "streams_stopping": Number(
        "Streams that the next plan stops, because the topic does not fit to the ledger any more.", _PIPELINE
    ),
    "open_batches": Number(
        "Batches by state: planned, writing, failed, or published with a head that has not passed them.",
        ("pipeline", "state"),
    ),
    "oldest_open_batch_timestamp_seconds": Number(
        "When the oldest batch was planned that is not published. Missing if none is open.", _PIPELINE
    ),
    "last_planned_timestamp_seconds": Number("When the newest batch was planned. Missing before the first.", _PIPELINE),
    "last_published_timestamp_seconds": Number("When a batch was last published. Missing before the first.", _PIPELINE),
    "hole_offsets": Number("Offsets that are in holes, by kind: skipped, lost or rewound.", ("pipeline", "kind")),
    "rejects": Number(
        "Rejected records that are kept, by step; at most 20,000 of a pipeline are counted.", ("pipeline", "step")
    ),
    "recent_records": Number(
        "Records of batches that were published in the last hour (at most the newest 100 of a pipeline): written, rejected or filtered.",
        ("pipeline", "fate"),
    ),
    "undeclared_fields": Number(
        "Fields that no column takes, in records of batches that were published in the last hour (at most the newest 100 of a pipeline).",
        _PIPELINE,
    ),
    "outbox_batches": Number("Published batches whose asset event was not sent yet.", _PIPELINE),
    "outbox_oldest_timestamp_seconds": Number(
        "When the oldest of these was published. Missing if there is none.", _PIPELINE
    ),
    "state_keys": Number("Keys that a stateful pipeline keeps, as estimated by Postgres's statistics.", _PIPELINE),
    "state_bytes": Number("The size of these keys and their states, as estimated by Postgres's statistics.", _PIPELINE),
}
DURATION = "batch_duration_seconds"
DURATION_HELP = (
    "How long the attempts took that published a batch in the last hour (at most the newest 100 of a pipeline). "
    "A histogram of now, not a counter: use it without rate()."
)
BUCKETS = (5, 10, 20, 30, 60, 120, 300, 600, 1_800, 3_600)
"""Upper bounds of batch durations, in seconds."""
