"""Builds the reports of samples, of a file or of the newest records: the rows that a pipeline makes of them, the rejects, and the counts."""

import json
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from datetime import date
from math import isfinite
from typing import Any

import pyarrow as pa

from tideline.authoring import sample, target_sql
from tideline.authoring.trial import Origin, Trial, tried
from tideline.declaration import Pipeline, pipelines
from tideline.domain.schemas import Schema
from tideline.errors import FatalError, NeedsOperatorError
from tideline.formats.confluent_frame import unframed
from tideline.formats.format import RawRecords
from tideline.kafka.newest_records import newest_of
from tideline.registry.sample_schemas import AskedSchemas, as_file
from tideline.reports.rejects import shown
from tideline.reports.report import Cell, Grid, Report, safe
from tideline.sinks import kinds

_PLAIN, _KEYED = rb"[\r\n]+", rb"[\r\n\t]+"
"""What would break a line of a sample; with keys a tab as well."""


def of_file(name: str, content: bytes, *, limit: int, fail_on_rejects: bool) -> Report:
    """Try a pipeline on the lines of a file, each the value of one record, behind its key if the pipeline decodes keys.

    Raises:
        FatalError: The declaration or the transform is wrong.
        RetryableError: The database of a `dimension` or of a reference table did not answer.
    """
    pipeline = pipelines.load_named(name)
    return of_records(
        pipeline,
        sample.of_values(pipeline, sample.lines(content, pipeline.source)),
        limit=limit,
        fail_on_rejects=fail_on_rejects,
    )


def of_records(
    pipeline: Pipeline,
    records: pa.Table,
    *,
    limit: int | None = None,
    fail_on_rejects: bool = False,
    places: Sequence[Origin] | None = None,
) -> Report:
    """Try a pipeline on records.

    Args:
        pipeline: The pipeline.
        records: The records, with the columns of `sample.RAW`.
        limit: The most rows, and the most rejects, to show; None: all.
        fail_on_rejects: Whether the exit code is 30 if a record is rejected.
        places: What names each record; by default the number of its line.

    Raises:
        FatalError: The declaration or the transform is wrong.
        RetryableError: The database of a `dimension` or of a reference table did not answer.
    """
    with redirect_stdout(sys.stderr):  # a transform may print, and stdout is for the result
        trial = tried(pipeline, records)
    problems = _problems(pipeline, trial)
    failed = NeedsOperatorError.exit_code if fail_on_rejects and trial.rejects else 0
    most = max(trial.n_read, trial.table.num_rows) if limit is None else limit
    shown_trial = document(pipeline.name, trial, limit=most, places=places)
    return Report(
        document={**shown_trial, "output": pipeline.sink.output, "problems": problems},
        parts=[*parts(trial, limit=most, places=places), *_unfit(pipeline.sink.output, problems)],
        exit_code=FatalError.exit_code if problems else failed,
    )


def _problems(pipeline: Pipeline, trial: Trial) -> list[str] | None:
    """Return why the rows do not fit the output; None if that is not known."""
    if not kinds.of(pipeline).is_outside:
        return target_sql.read(pipeline).problems(trial.table.schema, pipeline)
    return []


def _unfit(table: str, problems: Sequence[str] | None) -> Iterator[str]:
    """Yield what a load would refuse before it reads."""
    if problems:
        yield "\n".join([f"These rows do not fit {table} of target.sql:", *(f"  {problem}" for problem in problems)])
    elif problems is None:
        yield f"Not checked: whether these rows fit {table}, since target.sql is not understood; see tideline validate"


def document(name: str, trial: Trial, *, limit: int, places: Sequence[Origin] | None = None) -> Mapping[str, Any]:
    """Return what became of a sample as a JSON object, with at most `limit` rows and as many rejects.

    Args:
        name: The pipeline.
        trial: What became of the sample.
        limit: The most rows.
        places: What names each record of the sample; by default the number of its line.
    """

    def of(line: int) -> Mapping[str, Any]:
        return places[line - 1]._asdict() if places else {"line": line}

    rejects = [{**of(one.line), "step": one.step, "reason": one.reason} for one in trial.rejects[:limit]]
    rows = [{**of(line), "row": _plain(row)} for line, row in zip(trial.lines[:limit], trial.first(limit), strict=True)]
    found: dict[str, Any] = {"pipeline": name, "counts": _counts(trial), "rows": rows, "rejects": rejects}
    if deletions := [{**of(one.line), "key": _plain(one.key)} for one in trial.deletions[:limit]]:
        found["deletions"] = deletions
    if trial.states is not None:
        found["states"] = [_plain(one._asdict()) for one in trial.states[:limit]]
    found["undeclared"] = [{"part": part, "name": name, "records": n} for (part, name), n in trial.undeclared.items()]
    return found


def parts(trial: Trial, *, limit: int, places: Sequence[Origin] | None = None) -> Sequence[Grid | str]:
    """Return what became of a sample as tables, with at most `limit` rows and as many rejects.

    Args:
        trial: What became of the sample.
        limit: The most rows.
        places: What names each record of the sample; by default the number of its line.
    """
    heading = "record" if places else ">line"

    def of(line: int) -> Cell:
        return "{0.topic}/{0.partition} {0.offset}".format(places[line - 1]) if places else line

    rows = trial.first(limit)
    names = [name for name in trial.table.column_names if name != "kafka"]
    cells = [
        (of(line), *(_cell(row[name]) for name in names)) for line, row in zip(trial.lines[:limit], rows, strict=True)
    ]
    rejects = [(of(one.line), one.step, one.reason) for one in trial.rejects[:limit]]
    counts = _counts(trial)
    return [
        Grid(columns=(heading, *names), rows=cells, title=_title("Rows", len(cells), counts["rows"])),
        *_deletions(trial, heading, of, limit),
        *_states(trial, limit),
        Grid(
            columns=(heading, "step", "reason"),
            rows=rejects,
            title=_title("Rejects", len(rejects), counts["rejected"]),
        ),
        *_undeclared(trial),
        "read {read} = written {written} + rejected {rejected} + filtered {filtered}".format_map(counts),
    ]


def _deletions(trial: Trial, heading: str, of: Callable[[int], Cell], limit: int) -> Iterator[Grid]:
    shown_ones = trial.deletions[:limit]
    if shown_ones:
        yield Grid(
            columns=(heading, *shown_ones[0].key),
            rows=[(of(one.line), *map(_cell, one.key.values())) for one in shown_ones],
            title=_title("Deletions", len(shown_ones), len(trial.deletions)),
        )


def _states(trial: Trial, limit: int) -> Iterator[Grid]:
    """Yield what is kept after the sample, as one batch."""
    if trial.states is not None:
        shown_ones = trial.states[:limit]
        names = list(shown_ones[0].value) if shown_ones else []
        yield Grid(
            columns=("key", *names, "expires_at"),
            rows=[(_cell(one.key), *map(_cell, one.value.values()), _cell(one.expires_at)) for one in shown_ones],
            title=_title("States", len(shown_ones), len(trial.states)),
        )


def _undeclared(trial: Trial) -> Iterator[Grid]:
    """Yield the fields of the records that no column takes, if there are any."""
    if trial.undeclared:
        rows: list[Sequence[Cell]] = [(part, safe(name), n) for (part, name), n in trial.undeclared.items()]
        yield Grid(title="Fields that are not declared", columns=("of the", "field", ">records"), rows=rows)


def _counts(trial: Trial) -> dict[str, int]:
    return {
        "read": trial.n_read,
        "written": trial.n_written,
        "rejected": len(trial.rejects),
        "filtered": trial.n_filtered,
        "rows": trial.table.num_rows,
    }


def _title(name: str, shown: int, count: int) -> str:
    return name if shown == count else f"{name}: the first {shown} of {count}"


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: exact numbers and times as text, bytes in base64."""
    match value:
        case bytes():
            return b64encode(value).decode()
        case date():  # a datetime is one as well
            return value.isoformat().replace("+00:00", "Z")
        case dict():
            return {key: _plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_plain(inner) for inner in value]
    is_plain = isfinite(value) if isinstance(value, float) else isinstance(value, bool | int | str | None)
    return value if is_plain else str(value)  # JSON has no NaN


def _cell(value: Any) -> Cell:
    """Return a value as text on one line. A number stays as it is written: the table would add separators to its thousands."""
    match value:
        case None:
            return None
        case bytes():
            return shown(value)
        case str() if value == value.strip() != "":
            return shown(value.encode())
        case _:
            plain = _plain(value)
            is_text = isinstance(plain, str) and not isinstance(value, str)
            return shown((plain if is_text else json.dumps(plain, ensure_ascii=False)).encode())


def of_newest(name: str, count: int) -> Report:
    """Decode and transform the newest records of a pipeline's topics.

    Raises:
        FatalError: The declaration, the transform or a topic is wrong.
        RetryableError: The brokers did not answer.
    """
    pipeline = pipelines.load_named(name)
    records = newest_of(pipeline.source, count).records
    places = [Origin(one.topic, one.partition, one.offset) for one in records]
    found = of_records(pipeline, sample.of_records(records), places=places)
    return found if records else replace(found, parts=[f"{name}: its topics have no records"])


def schemas_of_newest(name: str, count: int) -> str:
    """Return the schemas that the newest records of a pipeline's topics name, as the file schemas.json of its folder has them.

    Raises:
        FatalError: The declaration or a topic is wrong, or no part of its records is in the frame of a registry.
        RetryableError: The brokers or the registry did not answer.
    """
    pipeline = pipelines.load_named(name)
    sections = {"key": pipeline.source.key, "value": pipeline.source.value}
    framed = [part for part, section in sections.items() if section is not None and section.frame != "none"]
    if pipeline.source.registry is None:
        raise FatalError(
            f"{name}: expected records in the frame of a schema registry, found none declared",
            next_step="leave out --schemas: the records of this pipeline name no schema",
            entry="schema-registry",
        )
    records = sample.of_records(newest_of(pipeline.source, count).records)
    # Not those of the folder's file: this is how it is written anew.
    asked = AskedSchemas(pipeline.source.registry.access(name))
    found: dict[int, Schema] = {}
    for part in framed:
        values = records.column(part)
        ids = unframed(RawRecords(part="value", keys=values, values=values)).schema_ids
        found |= asked.find("value", sorted({*ids.tolist()}))
    return as_file(found)


def print_values(name: str, count: int) -> None:
    """Print the values of the newest records, one per line, byte for byte except for line feeds, which become spaces.

    Bytes that are no text, as those of Avro and Protobuf, are in base64. On a terminal, control characters are shown as escapes: bytes of
    a record must not control it.

    If the pipeline decodes keys, each line begins with the key and a tab, and nothing follows the key of a tombstone.
    Else tombstones are left out, and their number is printed to stderr.

    Raises:
        FatalError: The declaration or a topic is wrong.
        RetryableError: The brokers did not answer.
    """
    source = pipelines.load_named(name).source
    records = newest_of(source, count).records
    if source.key is not None:
        parts = [(source.key, record.key or b"", source.value, record.value or b"") for record in records]
        lines = [
            sample.on_one_line(key, of_key, _KEYED) + b"\t" + sample.on_one_line(value, of_value, _KEYED)
            for of_key, key, of_value, value in parts
        ]
    else:
        values = [record.value for record in records if record.value is not None]
        lines = [sample.on_one_line(value, source.value, _PLAIN) for value in values]
    if sys.stdout.isatty():
        print("".join(f"{safe(line.decode(errors='backslashreplace'))}\n" for line in lines), end="")
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(b"".join(line + b"\n" for line in lines))
    if len(lines) < len(records):
        print(f"tideline: {len(records) - len(lines)} tombstones are left out: they have no value", file=sys.stderr)
