"""The most time that one attempt may take. Then it is ended: by cancelling Spark's jobs and, where that is not enough, with its process.

A thread of its own and not the heartbeat's: a ledger that does not answer a beat must not keep it from looking at the clock.
"""

import faulthandler
import os
import threading
from typing import Self

from spark_jobs.heartbeat import Work
from tideline.errors import RetryableError, TidelineError
from tideline.ledger import attempts
from tideline.ledger.attempts import Attempt
from tideline.ledger.connection import Ledger

MINUTE_SECONDS = 60.0
GRACE_SECONDS = 30.0
"""How long the work may take to end after its jobs were cancelled."""
RECORD_SECONDS = 60.0
"""How long the ledger may take to record why the process ends; it ends in any case."""
_CANCEL_SECONDS = 1.0


class Deadline:
    """A thread beside the work of one attempt, from its claim to its publish.

    Args:
        ledger_url: libpq URI of the ledger; the thread has a session of its own.
        attempt: Whose time it is.
        minutes: How many it has.
        work: What is cancelled.
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
        """What the attempt fails with."""
        attempt = self._attempt
        n_offsets = sum(len(piece.offsets) for piece in attempt.ranges)
        return RetryableError(
            f"{attempt} has taken more than the {self._minutes} minutes of limits.timeout_minutes; "
            f"{_progress(ledger, attempt)}, of {n_offsets} offsets",
            next_step=f"tideline batch {attempt.batch_id} shows when it last came on; the next try writes it again. If it was only slow, raise "
            "limits.timeout_minutes or lower limits.batch_records",
            entry="batch-timed-out",
        )

    def _run(self) -> None:
        if self._done.wait(self._minutes * MINUTE_SECONDS):
            return
        self.has_passed.set()
        # Beside this thread: a JVM that hangs does not answer.
        threading.Thread(target=self._cancel, name="cancel", daemon=True).start()
        if not self._done.wait(GRACE_SECONDS):
            self._end_process()

    def _cancel(self) -> None:
        """Again and again, since what is cancelled may be followed by one more job."""
        self._work.cancel()
        while not self._done.wait(_CANCEL_SECONDS):
            self._work.cancel()

    def _end_process(self) -> None:
        """Whatever the process is doing. spark-submit's JVM waits for it, and ends with the same exit code."""
        backstop = threading.Timer(RECORD_SECONDS, os._exit, (RetryableError.exit_code,))
        backstop.daemon = True
        backstop.start()
        try:
            faulthandler.dump_traceback(file=2, all_threads=True)  # where it hangs
            with Ledger(self._ledger_url, actor="deadline") as ledger:
                error = self.error(ledger)
                print(f"tideline: {type(error).__name__}: {error}", flush=True)
                attempts.fail(ledger, self._attempt, str(error))
        except TidelineError as untold:
            print(f"{self._attempt}: the attempt still shows as writing: {untold.problem}", flush=True)
        finally:
            os._exit(RetryableError.exit_code)


def _progress(ledger: Ledger, attempt: Attempt) -> str:
    """How far it has come, as its heartbeats have recorded."""
    try:
        with ledger.transaction():
            rows = ledger.rows("view_batch_attempts", batch_id=attempt.batch_id)
    except TidelineError:
        return "the ledger does not say how far it has come"
    row = next(row for row in rows if row["attempt"] == attempt.attempt)
    since = f", the last of them at {row['progressed_at']:%Y-%m-%dT%H:%M:%SZ}" if row["progressed_at"] else ""
    return f"its tasks have read {row['n_read']} records{since}"
