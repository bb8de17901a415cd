"""Compares what was sent with what is in Postgres: by the laws of the checker, and class by class."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from uuid import UUID

from faults.bad_input.fates import Fate, Filtered, Rejected, Written
from faults.bad_input.pipelines import Declared
from faults.bad_input.sending import Place, Sent
from faults.checker import Remembered, read, violations
from faults.checker.facts import FILTERED, REJECTED, WRITTEN, Expected, Found, Record, Reject, Stream

_WORDS = {Written: WRITTEN, Rejected: REJECTED, Filtered: FILTERED}
AS_IT_STANDS = 3
"""How many wrong records are shown for each class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """One pipeline after its runs, with its database."""

    declared: Declared
    url: str
    topic_id: UUID
    sent: Mapping[Place, Sent]

    def problems(self) -> list[str]:
        """Return all deviations; an empty list if there are none."""
        with read(self.url, self.declared.name, self.declared.view, self.declared.shown) as found:
            broken = [str(violation) for violation in violations(found, self._truth(), quiet=True)]
            wrong = self._wrong(found)
        return broken + (_table(self.declared.name, self.sent, wrong) if wrong else [])

    def state(self) -> dict[Place, tuple[object, ...]]:
        """Return all rows and rejects by place, without what may differ between runs: batches and times."""
        with read(self.url, self.declared.name, self.declared.view, self.declared.shown) as found:
            seen: dict[Place, tuple[object, ...]] = defaultdict(tuple)
            for stream in found.streams:
                for row in found.rows(stream):
                    seen[stream.partition, row.offset] += (row.values,)
                for reject in found.rejects(stream):
                    seen[stream.partition, reject.offset] += _kept(reject)
        # Rows of one record have no order.
        return {place: tuple(sorted(things, key=repr)) for place, things in seen.items()}

    def counts(self) -> dict[str, int]:
        """Return the expected number of records by fate."""
        found = Counter(_WORDS[type(self.declared.fate(one.case))] for one in self.sent.values())
        return {fate: found[fate] for fate in _WORDS.values()}

    def _truth(self) -> Remembered:
        logs: dict[tuple[UUID, int], list[Record]] = defaultdict(list)
        for (partition, _), one in sorted(self.sent.items()):
            logs[self.topic_id, partition].append(one.record)
        return Remembered(logs, expected=self._expected)

    def _expected(self, stream: Stream, record: Record) -> Expected:
        fate = self.declared.fate(self.sent[stream.partition, record.offset].case)
        rows = tuple(map(self.declared.values, fate.rows)) if isinstance(fate, Written) else ()
        return Expected(frozenset([_WORDS[type(fate)]]), rows)

    def _wrong(self, found: Found) -> dict[str, list[str]]:
        """Return by class the deviations of its records."""
        rejects = {
            (stream.partition, reject.offset): reject for stream in found.streams for reject in found.rejects(stream)
        }
        wrong: dict[str, list[str]] = defaultdict(list)
        for place, one in self.sent.items():
            for problem in _misjudged(self.declared.fate(one.case), rejects.get(place)):
                wrong[one.name].append(f"{place} {problem}: {_short(one.record.value)}")
        return wrong


def _misjudged(fate: Fate, reject: Reject | None) -> Iterator[str]:
    if isinstance(fate, Rejected):
        if reject is None:
            yield f"is no reject, and should be one of {fate.step}: {fate.words}"
        elif reject.step != fate.step or fate.words not in reject.reason:
            yield f"was rejected by {reject.step}: {reject.reason}; should have been by {fate.step}: {fate.words}"
        elif not reject.reason.isprintable() or len(reject.reason) > 500:
            yield f"was rejected with a reason that is not one short line: {reject.reason!r}"
    elif reject is not None:
        yield f"was rejected by {reject.step}: {reject.reason}"


def _kept(reject: Reject) -> tuple[object, ...]:
    headers = None if reject.headers is None else json.loads(reject.headers)
    return ((reject.step, reject.reason, reject.timestamp_ms, reject.key, reject.value, headers),)


def _table(pipeline: str, sent: Mapping[Place, Sent], wrong: Mapping[str, list[str]]) -> list[str]:
    """Return one line per class: how many were sent and how many went wrong."""
    counts = Counter(one.name for one in sent.values())
    lines = [f"{pipeline}: {'class':50} {'sent':>6} {'wrong':>6}"]
    for name, count in sorted(counts.items(), key=lambda entry: (-len(wrong.get(entry[0], ())), entry[0])):
        lines.append(f"{pipeline}: {name:50} {count:6} {len(wrong.get(name, ())):6}")
        lines += [f"    {text}" for text in wrong.get(name, ())[:AS_IT_STANDS]]
    return lines


def _short(value: bytes | None) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}... ({len(value or b'')} bytes)"
