"""Reads the request of a DAG run from its trigger form or its data interval.

Airflow checks each field of the form alone; this module checks that the fields fit together. It does not import Airflow: `tideline.airflow.tasks`
passes in the facts about the run, and `tideline.airflow.params` defines the fields.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tideline.airflow.form_choices import (
    INGEST_FIELDS,
    REPLAY_FIELDS,
    REQUIRED_FIELDS,
    REWIND_FIELDS,
    USED_FIELDS,
    Load,
)
from tideline.domain.requests import KeptRejects, NamedRange, NewRecords, OneBatch, Ranges, Request, Rewind, Window
from tideline.errors import FatalError

_BACKFILL_FIELDS = ("replace", "reason")


@dataclass(frozen=True, slots=True, kw_only=True)
class Triggered:
    """The facts that Airflow has about a run, in plain values."""

    run_type: str
    """`scheduled`, `backfill`, `manual`, `asset_triggered`, ..."""
    params: Mapping[str, Any]
    """The values of the form, each of the type that its field declares; None for a field without a value."""
    conf_keys: Iterable[str] = ()
    """The keys of the run's conf. Airflow also accepts keys that are not fields of the form."""
    interval: tuple[datetime, datetime] | None = None
    """The data interval. Airflow may also set one on manual runs, where it is not part of the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The request of a run and its reason."""

    request: Request | Rewind
    reason: str | None


def ingest(triggered: Triggered) -> Asked:
    """Read the request of a run of a pipeline's own DAG.

    Raises:
        FatalError: The form or the conf has mistakes; the message lists all of them.
    """
    reading = _FormReader(triggered, (*INGEST_FIELDS, *REWIND_FIELDS))
    if triggered.run_type in {"scheduled", "backfill"} and triggered.interval:
        return reading.end(_of_interval(reading, triggered.run_type, *triggered.interval))
    return reading.end(_of_form(reading, Load(triggered.params["load"])))


def replay(triggered: Triggered) -> Asked:
    """Read the request of a run of the DAG `replay`: a batch, ranges or a window, whose loaded rows are replaced.

    Raises:
        FatalError: The form or the conf has mistakes; the message lists all of them.
    """
    reading = _FormReader(triggered, REPLAY_FIELDS)
    reading.replace = True
    reading.need_reason("that what is loaded is replaced")
    given = {
        load
        for load in (Load.BATCH, Load.RANGES, Load.WINDOW)
        if any(reading.values[field] is not None for field in REQUIRED_FIELDS[load])
    }
    if len(given) != 1:
        found = " and ".join(sorted(given)) or "nothing"
        reading.mistakes.append(
            f"expected one thing to replay (`batch_id`, `ranges`, or `window_start` with `window_end`), found {found}"
        )
        return reading.end(None)
    (load,) = given
    reading.need(REQUIRED_FIELDS[load], "the other end of the window is given")
    return reading.end(_REQUEST_READERS[load](reading))


class _FormReader:
    """The fields of one run, and the mistakes found in them so far."""

    def __init__(self, triggered: Triggered, fields: tuple[str, ...]) -> None:
        self.mistakes: list[str] = []
        self.values = {field: _or_none(triggered.params.get(field)) for field in fields}
        self.replace = bool(self.values.get("replace"))
        if unknown := sorted(set(triggered.conf_keys) - set(fields)):
            self.mistakes.append(f"unknown conf {', '.join(unknown)}; known: {', '.join(fields)}")

    def need(self, fields: Iterable[str], because: str) -> None:
        """Record a mistake for each of these fields that has no value."""
        self.mistakes += [f"`{field}` is missing: {because}" for field in fields if self.values[field] is None]

    def need_reason(self, what: str) -> None:
        """Require a reason for changing loaded output. The history stores it for later readers."""
        if self.values["reason"] is None:
            self.mistakes.append(f"`reason` is missing: say why; the history keeps it as the reason {what}")

    def moment(self, field: str) -> datetime | None:
        """Parse the timestamp in a field; None if the field is empty, or wrong, which is recorded as a mistake."""
        text = self.values[field]
        if text is None:
            return None
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            self.mistakes.append(f"`{field}`: expected a moment like 2026-11-21T14:00:00Z, found `{text}`")
            return None
        if moment.tzinfo is None:
            example = f"{moment.isoformat()}Z"
            self.mistakes.append(f"`{field}` has no zone: {text}; say which moment it means, such as {example} for UTC")
            return None
        return moment

    def end(self, request: Request | Rewind | None) -> Asked:
        """Return the request, or raise FatalError with all mistakes that were recorded."""
        if self.mistakes or request is None:
            count = f"{len(self.mistakes)} mistakes" if len(self.mistakes) > 1 else "a mistake"
            raise FatalError(
                f"what the run was triggered with has {count}:\n    " + "\n    ".join(self.mistakes),
                next_step="correct it and trigger a new run; this one has changed nothing",
                entry="trigger-form",
            )
        return Asked(request=request, reason=self.values["reason"])


def _or_none(value: Any) -> Any:
    """Return None for each form of an empty field: a blank text, a list without lines, a box that is not ticked."""
    if isinstance(value, str):
        return value.strip() or None
    if isinstance(value, list):
        return [line.strip() for line in value if line.strip()] or None
    return None if value is False else value


def _of_interval(reading: _FormReader, run_type: str, start: datetime, end: datetime) -> Request:
    """Return the request of a run with a data interval: new records if scheduled, missing offsets of the window if a backfill."""
    allowed = _BACKFILL_FIELDS if run_type == "backfill" else ()
    for field, value in reading.values.items():
        if field not in allowed and value not in (None, Load.NEW_RECORDS):
            reading.mistakes.append(
                f"`{field}` is for runs that are triggered by hand: a {run_type} run uses its data interval"
            )
    if run_type == "scheduled":
        return NewRecords(until=end, since=start)
    if reading.replace:
        reading.need_reason("that what is loaded is replaced")
    return Window(start=start, end=end, replace=reading.replace)


def _of_form(reading: _FormReader, load: Load) -> Request | Rewind | None:
    """Return the request of a run that a user, an asset or another DAG has triggered."""
    for field in (name for name in reading.values if name not in {"load", "reason"}):
        if reading.values[field] is not None and field not in USED_FIELDS[load]:
            uses = " or ".join(f"`{other}`" for other, fields in USED_FIELDS.items() if field in fields)
            reading.mistakes.append(f"`{field}` is not used to {load.act}: leave it empty, or choose {uses}")
    reading.need(REQUIRED_FIELDS[load], f"to {load.act} it must be given")
    if reading.replace and "replace" in USED_FIELDS[load]:
        reading.need_reason("that what is loaded is replaced")
    if load is Load.REJECTS:
        reading.need_reason("that rejected records are tried again")
    if load is Load.REWIND:
        reading.need_reason("that what is loaded is undone, and loaded again")
    return _REQUEST_READERS[load](reading)


def _new_records(reading: _FormReader) -> Request:
    return NewRecords(until=reading.moment("until"))


def _window(reading: _FormReader) -> Request | None:
    start, end = reading.moment("window_start"), reading.moment("window_end")
    if start is None or end is None:
        return None
    if start >= end:
        reading.mistakes.append(f"`window_end` must be later than `window_start`, found {start} and {end}")
        return None
    return Window(start=start, end=end, replace=reading.replace)


def _ranges(reading: _FormReader) -> Request | None:
    """Parse ranges: one per line, or several per line separated by commas, as log lines show them."""
    lines = reading.values["ranges"] or ()
    pieces = [piece for line in lines for piece in re.split(r"(?<=\))\s*,", line) if piece.strip()]
    found = []
    for piece in pieces:
        try:
            found.append(NamedRange.parse(piece))
        except ValueError as error:
            reading.mistakes.append(f"`ranges`: {error}")
    try:
        return Ranges(ranges=tuple(found), replace=reading.replace) if found else None
    except ValueError as error:
        reading.mistakes.append(f"`ranges`: {error}")
        return None


def _batch(reading: _FormReader) -> Request | None:
    batch_id = reading.values["batch_id"]
    return None if batch_id is None else OneBatch(batch_id=batch_id, replace=reading.replace)


def _rejects(reading: _FormReader) -> Request:
    return KeptRejects(batch_id=reading.values["batch_id"], reason_like=reading.values["reject_reason"])


def _rewind(reading: _FormReader) -> Rewind | None:
    to_batch = reading.values["to_batch"]
    try:
        return None if to_batch is None else Rewind(to_batch=to_batch, dry_run=bool(reading.values["dry_run"]))
    except ValueError as error:
        reading.mistakes.append(f"`to_batch`: {error}")
        return None


_REQUEST_READERS: Mapping[Load, Callable[[_FormReader], Request | Rewind | None]] = {
    Load.NEW_RECORDS: _new_records,
    Load.WINDOW: _window,
    Load.RANGES: _ranges,
    Load.BATCH: _batch,
    Load.REJECTS: _rejects,
    Load.REWIND: _rewind,
}
