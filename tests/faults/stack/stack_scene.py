"""Provide what a schedule is played on: the running stack, two pipelines of its own, and retries for parts that are
down."""

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import httpx
import psutil
import psycopg2

from declared_pipelines import HOUR, LAST_TICK
from faults.jobs import orders
from faults.jobs.order_outputs import Output, Sink
from system import System
from tideline.errors import RetryableError

T = TypeVar("T")
PARTITIONS = 2
REPLAY = "replay"
_SINKS = (Sink.APPEND, Sink.TOPIC, Sink.LAKE)
# Errors of a call while a part of the stack is down, or when the process it looks for has just ended.
DISTURBED = (psycopg2.Error, httpx.HTTPError, psutil.NoSuchProcess, RetryableError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One schedule's part of the stack. Used by many threads."""

    system: System
    seed: int
    begin: float
    """Start of the schedule, on the monotonic clock."""
    deadline: float
    given_up: threading.Event = field(default_factory=threading.Event)
    """Set when something has failed: then all threads stop."""
    awaited: dict[int, str] = field(default_factory=dict)
    """What each thread is waiting for, by thread id."""

    @property
    def pipelines(self) -> tuple[str, str]:
        """Return both names; each is also the name of the DAG and of the topic."""
        return names(self.seed)

    @property
    def outputs(self) -> dict[str, Output]:
        """Return the output of each pipeline."""
        return outputs(self.seed, self.system.folder)

    @property
    def hourly(self) -> str:
        """Return the pipeline that runs hourly and manually, and has past hours to backfill."""
        return self.pipelines[0]

    @property
    def woken(self) -> str:
        """Return the pipeline whose runs are started by new records."""
        return self.pipelines[1]

    def pause(self, seconds: float) -> None:
        """Let time pass; raise TimeoutError if another thread has failed."""
        if self.given_up.wait(max(0.0, seconds)):
            raise TimeoutError("something else has failed")

    def pause_until(self, after: float) -> None:
        """Wait until `after` seconds of the schedule have passed."""
        self.pause(self.begin + after - time.monotonic())

    def insist(self, what: str, act: Callable[[], T | None]) -> T:
        """Repeat `act` until it returns something true: the parts it needs may be down."""
        done = self.attempt(what, act)
        assert done is not None
        return done

    def attempt(self, what: str, act: Callable[[], T | None], *, seconds: float | None = None) -> T | None:
        """Repeat `act` as `insist` does, but return None after `seconds`. Without `seconds`, raise TimeoutError at
        the deadline."""
        key = threading.get_ident()
        self.awaited[key] = what
        give_up = self.deadline if seconds is None else min(self.deadline, time.monotonic() + seconds)
        try:
            while True:
                problem: Exception | None = None
                try:
                    if done := act():
                        return done
                except DISTURBED as error:
                    if isinstance(error, httpx.HTTPStatusError) and error.response.is_client_error:
                        raise  # not the answer of a part that is down
                    problem = error
                if time.monotonic() > give_up:
                    if seconds is not None:
                        return None
                    raise TimeoutError(f"could not {what} in time") from problem
                self.pause(0.5)
        finally:
            self.awaited.pop(key, None)


def names(seed: int) -> tuple[str, str]:
    """Return the pipelines of a schedule: one that runs hourly, and one that records start."""
    return f"hourly_{seed}", f"woken_{seed}"


def outputs(seed: int, folder: Path) -> dict[str, Output]:
    """Return the output of each pipeline of a schedule. One of the two has a drawn sink, and a topic of rejects.

    Args:
        seed: The seed of the schedule.
        folder: The folder of the stack.
    """
    drawn, chosen = _SINKS[seed % len(_SINKS)], names(seed)[seed // len(_SINKS) % 2]
    return {
        name: Output(
            pipeline=name,
            sink=drawn if name == chosen else Sink.APPEND,
            lakes=folder / "lakes",
            has_letters=name == chosen,
        )
        for name in names(seed)
    }


def declare(folder: Path, seed: int) -> None:
    """Declare the pipelines of a schedule in the folder of the stack, unless they are declared."""
    found = outputs(seed, folder)
    hourly, woken = names(seed)
    _declare(folder, found[hourly], schedule=f"{LAST_TICK.minute} * * * *", start=(LAST_TICK - HOUR).isoformat())
    _declare(folder, found[woken], schedule=None, wake_on_records=True)


def _declare(stack: Path, output: Output, *, start: str = "earliest", **rest: object) -> None:
    folder = stack / "pipelines" / output.pipeline
    if folder.exists():
        return
    limits = {"batch_records": 200, "run_batches": 2, "split_records": 50}
    orders.declare(folder, folder.name, output, limits=limits)
    declaration = json.loads((folder / "pipeline.yaml").read_text())
    declaration["source"]["start"] = start
    (folder / "pipeline.yaml").write_text(json.dumps(declaration | {"retry_delay_seconds": 2} | rest))
