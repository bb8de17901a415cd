"""Fold a sample in memory, as one batch that begins without any state, and fold the records of a test in batches of their own."""

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pyarrow as pa

from tideline.declaration import pipelines
from tideline.declaration.pipelines import Pipeline
from tideline.domain.columns import parse_type
from tideline.domain.offsets import LAST
from tideline.errors import FatalError
from tideline.processors import Processor
from tideline.records import transforms
from tideline.records.record_steps import Account, record_steps
from tideline.state import arrow_records, reference_tables
from tideline.state.folding import KeyedRecord, Planned
from tideline.state.in_memory import States
from tideline.state.key_state import Typed
from tideline.state.keys import key_text
from tideline.state.rules import Rules, rules_of
from tideline.state.typed_values import MisfitError, fit_columns


class KeptState(NamedTuple):
    """What is kept for a key after a sample."""

    key: Any
    """As the processor gets it."""
    value: dict[str, Any]
    expires_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldedSample:
    """What a processor has made of a sample."""

    table: pa.Table
    """The rows, with the struct column `kafka` of the record that each row names."""
    written: pa.StructArray
    """The column `kafka` of the records that have rows of `on_record`."""
    states: list[KeptState]


def fold_sample(rules: Rules, decoded: pa.Table, account: Account, planned_at: datetime | None) -> FoldedSample:
    """Fold decoded records, with the column `kafka`, as one batch. Records that are not folded become rejects of `account`.

    Args:
        rules: How records are folded.
        decoded: The records.
        account: Keeps the rejects.
        planned_at: The time at which a run would plan them. None if they have no times of their own: then none is ahead.

    Raises:
        FatalError: `on_expiry` has failed, or `records` has made several rows of one record.
    """
    kafka = decoded.column("kafka").combine_chunks()
    places = sorted(set(zip(kafka.field("topic").to_pylist(), kafka.field("partition").to_pylist(), strict=True)))
    ids = {place: number for number, place in enumerate(places)}
    empty = arrow_records.keyed_schema(decoded.schema).empty_table()
    table = pa.concat_tables([empty, *arrow_records.keyed([decoded] if places else [], rules, ids, account)])
    records = arrow_records.records(table)
    states = States(
        rules=rules if planned_at else replace(rules, ahead=None),
        streams={number: f"{topic}/{partition}" for (topic, partition), number in ids.items()},
        planned={number: [Planned(0, LAST, planned_at)] for number in ids.values()} if planned_at else {},
    )
    found = states.fold(records)
    kafka = table.column("kafka").combine_chunks()
    numbers = pa.array([one.number for one in found.rejected], pa.int64())
    account.reject(arrow_records.STEP, kafka.take(numbers), [one.reason for one in found.rejected])
    at = {record[1:3]: number for number, record in enumerate(records)}
    of_rows = [at[row[:2]] for row in found.rows]
    written = sorted({at[row[:2]] for row in found.rows if not row.has_expired})
    columns = arrow_records.row_columns(found.rows, rules)
    return FoldedSample(
        table=pa.table({**columns, "kafka": kafka.take(pa.array(of_rows, pa.int64()))}, schema=rules.schema),
        written=kafka.take(pa.array(written, pa.int64())),
        states=kept_states(states),
    )


def kept_states(states: States) -> list[KeptState]:
    """Return the states in the order of their keys."""
    typed = Typed(states.rules)
    return [
        KeptState(typed.key(key), typed.restore(orjson.loads(one.value)), one.expires_at)
        for key, one in sorted(states.stored.items())
    ]


class UnfoldedRecord(NamedTuple):
    """A record that was not folded."""

    number: int
    """Its position among the given records, from 0."""
    reason: str


class Rows(list[dict[str, Any]]):
    """Output rows, in the order of partitions and offsets, with the rejects and the states that are left."""

    def __init__(self, rows: Iterable[dict[str, Any]], rejects: list[UnfoldedRecord], states: list[KeptState]) -> None:
        super().__init__(rows)
        self.rejects = rejects
        self.states = states


Given = Mapping[str, pa.Table | Sequence[Mapping[str, Any]]]
"""Rows of reference tables by the processor's names for them."""


def given_tables(pipeline: Pipeline, rules: Rules, tables: Given | None) -> Rules:
    """Return the rules with the reference tables of a test; with those of the ledger's database if it has none.

    Raises:
        FatalError: A table cannot be read, or the processor does not accept it.
        RetryableError: The database did not answer.
        ValueError: A test gives other tables than the processor declares.
    """
    if tables is None:
        return rules.with_tables(reference_tables.read(pipeline.name, rules.tables))
    if tables.keys() != rules.tables.keys():
        expected, found = (", ".join(sorted(names)) or "none" for names in (rules.tables, tables))
        raise ValueError(f"tables: expected those of the processor, {expected}; found {found}")
    return rules.with_tables(
        {name: one if isinstance(one, pa.Table) else pa.Table.from_pylist([*one]) for name, one in tables.items()}
    )


def run(
    processor: Processor | Path,
    records: Iterable[Mapping[str, Any]],
    *,
    cuts: Sequence[int] = (),
    tables: Given | None = None,
    folder: Path | None = None,
) -> Rows:
    """Fold records with a processor as the Spark job does, without Spark, Kafka and Postgres. Nothing is kept before them.

    Args:
        processor: The processor, or the folder of its pipeline.
        records: The columns of each record, as they are decoded, or as `records` of transform.py returns them. `kafka`
            may be left out, or parts of it: then all records are of partition 0, their offsets count up, and their
            timestamp is the event time.
        cuts: The positions of records at which a new batch begins.
        tables: The rows of each reference table that the processor declares, as dicts or as a pyarrow table.
        folder: The folder of a processor's pipeline. By default that of its module.

    Raises:
        FatalError: The declaration or the processor is wrong.
        ValueError: A record does not have the declared columns, or `tables` are not those of the processor.
    """
    if isinstance(processor, Path):
        pipeline = pipelines.load(processor)
        transform = transforms.load(pipeline)
    else:
        pipeline = pipelines.load(folder or Path(inspect.getfile(type(processor))).parent)
        transform = replace(transforms.load(pipeline), processor=processor)
    steps = record_steps(pipeline, transform)
    rules = rules_of(pipeline, transform, steps.rows)
    if rules is None:
        raise FatalError(
            f"{pipeline.name}: the state cannot be folded as it is declared: expected the section `state`, found none",
            next_step="declare it",
            entry="state-cannot-be-folded",
        )
    rules = given_tables(pipeline, rules, tables or {})
    given, names = _records(pipeline, rules, list(records), checked=transform.records is None)
    states = States(rules=rules, streams=names)
    rows, rejects = [], []
    for start, end in pairwise([0, *sorted({*cuts} - {0}), len(given)]):
        batch = [(number, one) for number, one in enumerate(given[start:end], start) if isinstance(one, KeyedRecord)]
        found = states.fold(record for _, record in batch)
        rows += found.rows
        rejects += [
            UnfoldedRecord(number, one) for number, one in enumerate(given[start:end], start) if isinstance(one, str)
        ]
        rejects += [UnfoldedRecord(batch[one.number][0], one.reason) for one in found.rejected]
    rows.sort(key=lambda row: row[:2])
    return Rows((row.values for row in rows), sorted(rejects), kept_states(states))


def _records(
    pipeline: Pipeline, rules: Rules, given: Sequence[Mapping[str, Any]], *, checked: bool
) -> tuple[list[KeyedRecord | str], dict[int, str]]:
    """Return the records, or why they are rejected, and the names of their streams by id."""
    source = pipeline.source
    declared = {**(source.key.columns if source.key else {}), **source.value.columns}
    fit = fit_columns({name: parse_type(kind) for name, kind in declared.items()}) if checked and declared else dict
    placed = list(_placed(pipeline, rules, given))
    ids = {place: number for number, place in enumerate(sorted({one[:2] for one in placed}))}
    found: list[KeyedRecord | str] = []
    for number, (record, (topic, partition, kafka)) in enumerate(zip(given, placed, strict=True)):
        try:
            values = {**fit({name: value for name, value in record.items() if name != "kafka"}), "kafka": kafka}
        except MisfitError as error:
            raise ValueError(f"record {number}: {error}") from None
        key = [values.get(name) for name in rules.key]
        if None in key:
            found.append(f"no key: {[*rules.key][key.index(None)]} is null")
        else:
            found.append(KeyedRecord(key_text(key), ids[topic, partition], kafka["offset"], values))
    return found, {number: f"{topic}/{partition}" for (topic, partition), number in ids.items()}


def _placed(
    pipeline: Pipeline, rules: Rules, given: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Yield topic, partition and the column `kafka` of each record."""
    next_offsets: dict[tuple[str, int], int] = {}
    topic = pipeline.source.topics[0] if pipeline.source.topics else pipeline.name
    for record in given:
        stated = record.get("kafka", {})
        place = (stated.get("topic", topic), stated.get("partition", 0))
        at = record.get(rules.event_time) if rules.event_time else None
        kafka = {
            "topic": place[0],
            "partition": place[1],
            "offset": next_offsets.get(place, 0),
            "timestamp": at,
            "headers": None,
            **stated,
        }
        next_offsets[place] = kafka["offset"] + 1
        yield *place, kafka
