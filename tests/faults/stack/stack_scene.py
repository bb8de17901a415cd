"""Where a schedule is played: the running stack, two pipelines of the schedule's own, and patience with what is down."""

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

from declaring import HOUR, LAST_TICK
from faults.jobs import orders
from system import System
from tideline.errors import RetryableError

T = TypeVar("T")
PARTITIONS = 2
REPLAY = "replay"
# What a call meets while a part of the stack is down, or when the process that it looks for has just gone.
DISTURBED = (psycopg2.Error, httpx.HTTPError, psutil.NoSuchProcess, RetryableError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One schedule's part of the stack. To be used by many threads."""

    system: System
    seed: int
    begin: float
    """By the monotonic clock."""
    deadline: float
    given_up: threading.Event = field(default_factory=threading.Event)
    """Set when something has failed: then everybody stops."""
    awaited: dict[int, str] = field(default_factory=dict)
    """What each thread tries to do just now."""

    @property
    def pipelines(self) -> tuple[str, str]:
        """Both; each name is its DAG's and its topic's as well."""
        return names(self.seed)

    @property
    def hourly(self) -> str:
        """The pipeline that runs every hour and by hand, and has past hours to be filled in."""
        return self.pipelines[0]

    @property
    def woken(self) -> str:
        """The pipeline whose runs are started by records that arrive."""
        return self.pipelines[1]

    def pause(self, seconds: float) -> None:
        """Let time pass, unless all is in vain."""
        if self.given_up.wait(max(0.0, seconds)):
            raise TimeoutError("something else has failed")

    def pause_until(self, after: float) -> None:
        """Wait until so many seconds of the schedule have gone."""
        self.pause(self.begin + after - time.monotonic())

    def insist(self, what: str, act: Callable[[], T | None]) -> T:
        """Try until it gives something: whatever it needs may be down just now."""
        done = self.attempt(what, act)
        assert done is not None
        return done

    def attempt(self, what: str, act: Callable[[], T | None], *, seconds: float | None = None) -> T | None:
        """The same, but None where it has given nothing within `seconds`; without them that is an error at the deadline."""
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
                        raise  # a part that is down does not say so
                    problem = error
                if time.monotonic() > give_up:
                    if seconds is not None:
                        return None
                    raise TimeoutError(f"could not {what} in time") from problem
                self.pause(0.5)
        finally:
            self.awaited.pop(key, None)


def names(seed: int) -> tuple[str, str]:
    """The pipelines of a schedule: one that runs hourly and one that records wake."""
    return f"hourly_{seed}", f"woken_{seed}"


def declare(folder: Path, seed: int) -> None:
    """Declare the pipelines of a schedule below `folder`, unless they are."""
    hourly, woken = names(seed)
    _declare(folder / hourly, schedule=f"{LAST_TICK.minute} * * * *", start=(LAST_TICK - HOUR).isoformat())
    _declare(folder / woken, schedule=None, wake_on_records=True)


def _declare(folder: Path, *, start: str = "earliest", **rest: object) -> None:
    if folder.exists():
        return
    orders.declare(folder, folder.name, limits={"batch_records": 200, "run_batches": 2, "split_records": 50})
    declaration = json.loads((folder / "pipeline.yaml").read_text())
    declaration["source"]["start"] = start
    (folder / "pipeline.yaml").write_text(json.dumps(declaration | {"retry_delay_seconds": 2} | rest))
