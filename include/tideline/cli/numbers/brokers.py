"""The numbers that need the brokers: ends, lag and headroom.

Invariant: a broker that does not answer delays the others by nothing, and all of them by at most `SECONDS`. Each pipeline is asked by a thread of
its own. A thread that is not done in time goes on, and the next collection waits for it instead of starting another one.
"""

import logging
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from datetime import UTC, datetime

from tideline.cli.numbers.ledger import heads
from tideline.cli.numbers.sheet import Sheet
from tideline.cli.pages.overview import against
from tideline.cli.session import Answer, ask
from tideline.declaration.pipelines import Pipeline
from tideline.domain.timestamps import milliseconds
from tideline.errors import RetryableError, TidelineError
from tideline.ledger.queries import Row

log = logging.getLogger(__name__)
SECONDS = 12
"""How long to wait for all brokers together, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compared:
    """The streams of a pipeline compared with its brokers."""

    rows: Sequence[Row]
    ages: Mapping[tuple[str, int], float | None]
    """By topic and partition with records that are not loaded, the age in seconds of the oldest of them; None if it is unknown."""
    problem: TidelineError | None


_asked: dict[str, Future[_Compared]] = {}
"""By pipeline, the questions that are not answered yet."""
_asking = threading.Lock()


def fill(sheet: Sheet, pipelines: Iterable[Pipeline], known: Mapping[str, Sequence[Row]]) -> list[TidelineError]:
    """Put the brokers' numbers on the sheet. Return why some of them did not answer.

    Args:
        sheet: The sheet.
        pipelines: The pipelines whose brokers to ask.
        known: The streams that the ledger knows, by pipeline; empty if the ledger does not answer.
    """
    began = time.monotonic()
    futures = {pipeline.name: _ask(pipeline, known.get(pipeline.name, ())) for pipeline in pipelines}
    wait(futures.values(), timeout=SECONDS)
    problems = []
    for name, future in futures.items():
        if not future.done():
            problems.append(_late(name))
            sheet.put("broker_up", 0, name)
        elif future.exception() is not None:
            log.error("%s: the comparison with the brokers failed", name, exc_info=future.exception())
            sheet.put("broker_up", 0, name)
        elif problem := future.result().problem:
            problems.append(problem)
            sheet.put("broker_up", 0, name)
        else:
            sheet.put("broker_up", 1, name)
            _put(sheet, name, future.result())
    sheet.put("collection_seconds", time.monotonic() - began, "brokers")
    return problems


def _ask(pipeline: Pipeline, known: Sequence[Row]) -> Future[_Compared]:
    """Return the answer to come. The threads end with the process: a broker that does not answer must not hold up the end of a command."""
    with _asking:
        if (pending := _asked.get(pipeline.name)) is not None:
            return pending
        future: Future[_Compared] = Future()
        _asked[pipeline.name] = future
    threading.Thread(target=_answer, args=(future, pipeline, known), name=f"ask {pipeline.name}", daemon=True).start()
    return future


def _answer(future: Future[_Compared], pipeline: Pipeline, known: Sequence[Row]) -> None:
    try:
        compared = _compare(pipeline, known)
    except Exception as error:  # noqa: BLE001 - the collection that waits for it reports it
        future.set_exception(error)
    else:
        future.set_result(compared)
    finally:
        with _asking:
            del _asked[pipeline.name]


def _compare(pipeline: Pipeline, known: Sequence[Row]) -> _Compared:
    answer = ask(pipeline, {row["topic"] for row in known})
    rows = against(known, answer)
    return _Compared(rows=rows, ages=_ages(answer, rows), problem=answer.problem)


def _ages(answer: Answer, rows: Iterable[Row]) -> dict[tuple[str, int], float | None]:
    """Return the age of the oldest unread record of each partition that has any.

    Reads one record of each such partition: brokers list offsets by timestamp, but not timestamps by offset.
    """
    unread = {
        (row["topic"], row["partition"]): max(row["head"], row["log_start"])
        for row in rows
        if row["lag"] and row["state"] != "retired" and row["log_start"] is not None
    }
    if not unread or answer.broker is None:
        return {}
    try:
        found = answer.broker.records_from(unread, 1)
    except (
        TidelineError
    ) as error:  # for example, retention has deleted an offset meanwhile; the offsets are still right
        log.warning("%s", error.problem)
        return dict.fromkeys(unread)
    now = milliseconds(datetime.now(UTC))
    return {place: _age(now, records[0].timestamp) if records else 0 for place, records in found.items()}


def _age(now: int, timestamp: int) -> float | None:
    """Return the age of a record in seconds: 0 if it is dated in the future, None if it has no timestamp."""
    return max(0, now - timestamp) / 1_000 if timestamp >= 0 else None


def _put(sheet: Sheet, pipeline: str, compared: _Compared) -> None:
    heads(sheet, pipeline, [row for row in compared.rows if row["head"] is not None])
    for row in compared.rows:
        if row["state"] == "retired":
            continue
        place = (row["topic"], row["partition"])
        sheet.put("end_offset", row["end"], pipeline, *place)
        sheet.put("log_start_offset", row["log_start"], pipeline, *place)
        sheet.put("lag_records", row["lag"], pipeline, *place)
        sheet.put("lag_seconds", compared.ages.get(place, None if row["lag"] else 0), pipeline, *place)
        sheet.put("headroom_ratio", row["headroom_at_least"], pipeline, *place)
        sheet.put("retention_seconds", row["retention_seconds"], pipeline, row["topic"])
    sheet.put("streams_stopping", sum(row["will_stop"] for row in compared.rows), pipeline)


def _late(name: str) -> TidelineError:
    return RetryableError(
        f"{name}: the brokers have not answered within {SECONDS} seconds",
        next_step="check that they run and can be reached from here",
        entry="kafka-does-not-answer",
    )
