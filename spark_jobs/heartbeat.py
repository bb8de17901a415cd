"""Send heartbeats while a batch is written, and stop the work when the attempt can no longer publish."""

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Self
from uuid import UUID

from pyspark.sql import SparkSession

from tideline import job_log
from tideline.errors import TidelineError
from tideline.ledger import attempts
from tideline.ledger.connection import Ledger

BEAT_SECONDS = 5.0
_WATCH_SECONDS = 1.0


class Work:
    """The Spark jobs of an attempt, so that other threads can cancel them. At first there is no session: a cluster may take minutes to start it."""

    def __init__(self) -> None:
        self.taken_over = threading.Event()
        """Set when a newer attempt has claimed the batch."""
        self._spark: SparkSession | None = None

    def begin(self, spark: SparkSession) -> None:
        """Use this session from now on.

        Raises:
            RuntimeError: A newer attempt has claimed the batch while the session was started.
        """
        self._spark = spark
        if self.taken_over.is_set():
            raise RuntimeError("a newer attempt has claimed the batch")

    def stop(self) -> None:
        """Cancel the jobs and refuse a later `begin`, because a newer attempt has claimed the batch."""
        self.taken_over.set()
        self.cancel()

    def cancel(self) -> None:
        """Cancel the jobs that run now."""
        if self._spark is not None:
            self._spark.sparkContext.cancelAllJobs()


class Heartbeat:
    """A thread that sends the heartbeats of one attempt.

    Args:
        ledger_url: libpq URI of the ledger; the thread opens its own session.
        attempt: The attempt that the heartbeats are for.
        superseded: Stops the work. It is called from the thread when a newer attempt has claimed the batch. It is
            called again at each later heartbeat, since a Spark job may have started after the previous call.
    """

    def __init__(self, ledger_url: str, attempt: UUID, superseded: Callable[[], object]) -> None:
        self._ledger_url = ledger_url
        self._attempt = attempt
        self._superseded = superseded
        self._parent = os.getppid()
        self._stop = threading.Event()
        self._ledger: Ledger | None = None
        self._is_well = True
        """Whether the last heartbeat arrived. Only the first of several failures is reported."""
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._beat_until_stopped()
        finally:
            self._disconnect()

    def _beat_until_stopped(self) -> None:
        waited = BEAT_SECONDS
        while not self._stop.wait(_WATCH_SECONDS):
            # The JVM started this process. Without the JVM nothing can be read, and no other process ends this one.
            if os.getppid() != self._parent:
                os._exit(1)
            waited += _WATCH_SECONDS
            if waited >= BEAT_SECONDS:
                waited = 0.0
                self._beat_once()

    def _beat_once(self) -> None:
        """Send a heartbeat, and stop the work if the attempt no longer holds its batch. No error ends the thread.

        Without it a living attempt falls silent, so that another run takes its batch, and the death of the JVM is not noticed.
        """
        try:
            if not self._beat():
                self._superseded()
        except Exception as error:  # noqa: BLE001 - the next heartbeat may succeed
            if self._is_well:
                what = error.problem if isinstance(error, TidelineError) else f"{type(error).__name__}: {error}"
                job_log.say(f"no heartbeat, which is tried again every {BEAT_SECONDS:.0f} s: {what}", level="warning")
            self._is_well = False
            self._disconnect()
        else:
            self._is_well = True

    def _beat(self) -> bool:
        """Send a heartbeat. Return whether the attempt still holds its batch."""
        if self._ledger is None:
            self._ledger = Ledger(self._ledger_url, actor="heartbeat")
        return attempts.beat(self._ledger, self._attempt)

    def _disconnect(self) -> None:
        ledger, self._ledger = self._ledger, None
        if ledger is not None:
            with suppress(Exception):  # it may be lost already
                ledger.close()
