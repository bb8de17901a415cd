"""The numbers that need the brokers: ends, lag and headroom.

Invariant: brokers that do not answer delay the numbers of the others by nothing, and all together by at most `SECONDS`.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, as_completed, wait
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Generic, TypeVar

from tideline.declaration.pipelines import Pipeline
from tideline.domain.facts import Place
from tideline.domain.timestamps import milliseconds
from tideline.errors import RetryableError, TidelineError
from tideline.inspection.brokers import Answer, ask
from tideline.inspection.comparison import against
from tideline.ledger.queries import Row
from tideline.metrics.ledger import heads
from tideline.metrics.sheet import Sheet

log = logging.getLogger(__name__)
SECONDS = 15.0
"""How long to wait for all brokers together, at most."""
MOST_AGES = 100
"""The most partitions of a pipeline whose oldest unread record is looked at, those with the largest lag."""
_Ages = Mapping[Place, float | None]
"""The age in seconds of the oldest record that is not loaded; None if it is unknown."""
T = TypeVar("T")


class Asking(Generic[T]):
    """Asks questions that may take long in threads, at most one of each name at a time.

    A caller waits as long as it likes. A question that is not answered by then goes on, and the next caller waits for it instead of asking again.
    The threads end with the process: a broker that does not answer must not hold up the end of a command.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._pending: dict[str, Future[T]] = {}
        self._lock = threading.Lock()

    def ask(self, name: str, question: Callable[[], T]) -> Future[T]:
        """Return the answer to come: of this question, or of the one of that name that is not answered yet."""
        with self._lock:
            if (pending := self._pending.get(name)) is not None:
                return pending
            future: Future[T] = Future()
            self._pending[name] = future
        threading.Thread(
            target=self._answer, args=(name, future, question), name=f"{self._kind} {name}", daemon=True
        ).start()
        return future

    def _answer(self, name: str, future: Future[T], question: Callable[[], T]) -> None:
        try:
            answer = question()
        except Exception as error:  # noqa: BLE001 - the caller that waits for it gets it
            future.set_exception(error)
        else:
            future.set_result(answer)
        finally:
            with self._lock:
                del self._pending[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compared:
    """The streams of a pipeline compared with its brokers."""

    answer: Answer
    rows: Sequence[Row]


_comparing = Asking[_Compared]("compare")
_aging = Asking[_Ages]("ages of")
_reading = threading.BoundedSemaphore(4)
"""Each reading fetches up to 64 kB of each partition: fifty at a time would take all of a machine, and of its network."""


def fill(sheet: Sheet, pipelines: Iterable[Pipeline], known: Mapping[str, Sequence[Row]]) -> list[TidelineError]:
    """Put the brokers' numbers on the sheet. Return why some of them did not answer.

    Args:
        sheet: The sheet.
        pipelines: The pipelines whose brokers to ask.
        known: The streams that the ledger knows, by pipeline; empty if the ledger does not answer.
    """
    began = time.monotonic()
    compared = {
        _comparing.ask(one.name, partial(_compare, one, known.get(one.name, ()))): one.name for one in pipelines
    }
    ages = {}
    with suppress(TimeoutError):
        for future in as_completed(compared, timeout=SECONDS):
            if future.exception() is None:
                ages[compared[future]] = _aging.ask(compared[future], partial(_ages, future.result()))
    wait(ages.values(), timeout=max(0, began + SECONDS - time.monotonic()))
    problems = []
    for future, name in compared.items():
        problem = _problem(name, future)
        sheet.put("broker_up", int(problem is None), name)
        if problem is not None:
            problems.append(problem)
        else:
            _put(sheet, name, future.result().rows, _answered(ages.get(name)))
    sheet.put("collection_seconds", time.monotonic() - began, "brokers")
    return problems


def _problem(name: str, future: Future[_Compared]) -> TidelineError | None:
    """Return why there are no numbers of a pipeline's brokers; None if there are."""
    if not future.done():
        return RetryableError(
            f"{name}: the brokers have not answered within {SECONDS:g} seconds",
            next_step="check that they run and can be reached from here",
            entry="kafka-does-not-answer",
        )
    if (error := future.exception()) is not None:  # a mistake in one pipeline's comparison must not hide the others
        log.error("%s: the comparison with the brokers failed", name, exc_info=error)
        return RetryableError(
            f"{name}: what the brokers answer could not be read: {type(error).__name__}",
            next_step="the log has the whole error; please report it",
            entry="kafka-does-not-answer",
        )
    return future.result().answer.problem


def _answered(future: Future[_Ages] | None) -> _Ages:
    if future is None or not future.done():
        return {}
    if (error := future.exception()) is not None:
        log.error("the ages of unread records are not known", exc_info=error)
        return {}
    return future.result()


def _compare(pipeline: Pipeline, known: Sequence[Row]) -> _Compared:
    answer = ask(pipeline, {row["topic"] for row in known})
    return _Compared(answer=answer, rows=against(known, answer))


def _ages(compared: _Compared) -> _Ages:
    """Return the age of the oldest unread record of partitions that have any.

    Reads one record of each of them: brokers list offsets by timestamp, but not timestamps by offset.
    """
    unread = sorted(
        (row for row in compared.rows if row["lag"] and row["state"] != "retired" and row["log_start"] is not None),
        key=lambda row: -row["lag"],
    )[:MOST_AGES]
    starts = {(row["topic"], row["partition"]): max(row["head"], row["log_start"]) for row in unread}
    if not starts or compared.answer.broker is None:
        return {}
    try:
        with _reading:
            held = {place: offset for place, offset in starts.items() if place in compared.answer.held}
            free = {place: offset for place, offset in starts.items() if place not in held}
            found = compared.answer.broker.records_from(free, 1) if free else {}
            if held:  # what a hanging transaction holds back is unread as well
                found |= compared.answer.broker.records_from(held, 1, committed=False)
    except TidelineError as error:
        # For example, retention has deleted an offset meanwhile. The other numbers are still right.
        log.warning("%s", error.problem)
        return {}
    now = milliseconds(datetime.now(UTC))
    # Behind the head there may be only markers of transactions: nothing is left to load then, and the age is 0.
    return {place: _age(now, records[0].timestamp) if records else 0 for place, records in found.items()}


def _age(now: int, timestamp: int) -> float | None:
    """Return the age of a record in seconds: 0 if it is dated in the future, None if it has no timestamp."""
    return max(0, now - timestamp) / 1_000 if timestamp >= 0 else None


def _put(sheet: Sheet, pipeline: str, rows: Sequence[Row], ages: _Ages) -> None:
    heads(sheet, pipeline, [row for row in rows if row["head"] is not None])
    for row in rows:
        if row["state"] == "retired":
            continue
        place = (row["topic"], row["partition"])
        sheet.put("end_offset", row["end"], pipeline, *place)
        sheet.put("log_start_offset", row["log_start"], pipeline, *place)
        sheet.put("lag_records", row["lag"], pipeline, *place)
        sheet.put("held_records", row["held"] if row["end"] is not None else None, pipeline, *place)
        sheet.put("lag_seconds", 0 if row["lag"] == 0 else ages.get(place), pipeline, *place)
        sheet.put("headroom_ratio", row["headroom_at_least"], pipeline, *place)
        sheet.put("retention_seconds", row["retention_seconds"], pipeline, row["topic"])
    sheet.put("streams_stopping", sum(row["will_stop"] for row in rows), pipeline)
