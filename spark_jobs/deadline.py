"""Enforce the time limit of an attempt: cancel Spark's jobs and, if that is not enough, end the process.

The deadline has its own thread and does not share the heartbeat's. A ledger that does not answer a heartbeat must not
delay the deadline.
"""

import faulthandler
import os
import threading
from typing import Self

from tideline import job_log
from tideline.errors import RetryableError, TidelineError
from tideline.ledger import attempts, queries
from tideline.ledger.attempts import Attempt
from tideline.ledger.connection import Ledger
from tideline.spark_jobs.heartbeat import Work

MINUTE_SECONDS = 60.0
GRACE_SECONDS = 30.0
"""How long the work may take to end after its Spark jobs were cancelled."""
RECORD_SECONDS = 60.0
"""How long the ledger may take to record why the process ends. After that time the process ends without the record."""
_CANCEL_SECONDS = 1.0


class Deadline:
    """A thread that limits the duration of one attempt, from its claim to its publish.

    Args:
        ledger_url: libpq URI of the ledger; the thread opens its own session.
        attempt: The attempt whose duration is limited.
        minutes: The time limit.
        work: Is cancelled when the time limit has passed.
    """

    def __init__(self, ledger_url: str, attempt: Attempt, minutes: int, work: Work) -> None:
        self.has_passed = threading.Event()
        self._ledger_url = ledger_url
        self._attempt = attempt
        self._minutes = minutes
        self._work = work
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="deadline", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def error(self, ledger: Ledger) -> RetryableError:
        """Return the error with which the attempt fails, with its progress so far."""
        attempt = self._attempt
        n_offsets = sum(len(piece.offsets) for piece in attempt.ranges)
        return RetryableError(
            f"{attempt} has taken more than the {self._minutes} minutes of limits.timeout_minutes; "
            f"{_progress(ledger, attempt)}, of {n_offsets} offsets",
            next_step=f"tideline batch {attempt.batch_id} shows when it last made progress; the next try writes it again. If it was slow, raise "
            "limits.timeout_minutes or lower limits.batch_records",
            entry="batch-timed-out",
        )

    def _run(self) -> None:
        if self._done.wait(self._minutes * MINUTE_SECONDS):
            return
        self.has_passed.set()
        # In another thread: a call to a JVM that hangs does not return.
        threading.Thread(target=self._cancel, name="cancel", daemon=True).start()
        if not self._done.wait(GRACE_SECONDS):
            self._end_process()

    def _cancel(self) -> None:
        """Cancel Spark's jobs once per second until the work has ended, since another job may start after a cancellation."""
        self._work.cancel()
        while not self._done.wait(_CANCEL_SECONDS):
            self._work.cancel()

    def _end_process(self) -> None:
        """End the process, in whatever state it is. spark-submit's JVM waits for it, and ends with the same exit code."""
        backstop = threading.Timer(RECORD_SECONDS, os._exit, (RetryableError.exit_code,))
        backstop.daemon = True
        backstop.start()
        try:
            faulthandler.dump_traceback(file=2, all_threads=True)  # shows where it hangs
            with Ledger(self._ledger_url, actor="deadline") as ledger:
                error = self.error(ledger)
                job_log.say_error(error)
                attempts.fail(ledger, self._attempt, str(error))
        except TidelineError as unrecorded:
            job_log.say(f"{self._attempt}: the attempt still shows as writing: {unrecorded.problem}", level="error")
        finally:
            os._exit(RetryableError.exit_code)


def _progress(ledger: Ledger, attempt: Attempt) -> str:
    """Describe the progress of the attempt, as its heartbeats have recorded it."""
    try:
        with ledger.transaction():
            rows = queries.attempts(ledger, attempt.batch_id)
    except TidelineError:
        return "its progress is unknown because the ledger could not be read"
    row = next(row for row in rows if row["attempt"] == attempt.attempt)
    since = f", the last of them at {row['progressed_at']:%Y-%m-%dT%H:%M:%SZ}" if row["progressed_at"] else ""
    return f"its tasks have read {row['n_read']} records{since}"
