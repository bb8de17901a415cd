"""The choices of the trigger forms, and the fields that each of them uses."""

from collections.abc import Mapping
from enum import StrEnum


class Load(StrEnum):
    """The choices of the field `load`."""

    NEW_RECORDS = "new records"
    WINDOW = "a window"
    RANGES = "ranges"
    BATCH = "a batch"
    REJECTS = "rejected records"
    REWIND = "rewind"
    """Offered by pipelines with a state only."""

    @property
    def act(self) -> str:
        """Return what a run with this choice does."""
        return "rewind" if self is Load.REWIND else f"load {self}"


INGEST_FIELDS = (
    "load", "reason", "replace", "until", "window_start", "window_end", "ranges", "batch_id", "reject_reason",
)  # fmt: skip
REWIND_FIELDS = ("to_batch", "dry_run")
"""What the form of a pipeline with a state has after the others."""
REPLAY_FIELDS = ("pipeline", "reason", "batch_id", "ranges", "window_start", "window_end")

USED_FIELDS: Mapping[Load, tuple[str, ...]] = {
    Load.NEW_RECORDS: ("until",),
    Load.WINDOW: ("window_start", "window_end", "replace"),
    Load.RANGES: ("ranges", "replace"),
    Load.BATCH: ("batch_id", "replace"),
    Load.REJECTS: ("batch_id", "reject_reason"),
    Load.REWIND: REWIND_FIELDS,
}
REQUIRED_FIELDS: Mapping[Load, tuple[str, ...]] = {
    Load.NEW_RECORDS: (),
    Load.WINDOW: ("window_start", "window_end"),
    Load.RANGES: ("ranges",),
    Load.BATCH: ("batch_id",),
    Load.REJECTS: (),
    Load.REWIND: ("to_batch",),
}
