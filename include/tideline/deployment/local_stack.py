"""Finds the local stack of a checkout by the file that its supervisor publishes, so that commands need no variables beside a running one."""

import contextlib
import json
import os
import signal
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from tideline import settings
from tideline.deployment import secret
from tideline.errors import FatalError


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Identifies one process permanently: the system may reuse a pid, but not with the same creation time."""

    pid: int
    created: float
    """Seconds since the epoch."""
    stop_signal: int = signal.SIGTERM
    """The signal that requests a graceful stop."""

    @classmethod
    def of(cls, pid: int, *, stop_signal: int = signal.SIGTERM) -> "Identity":
        """Return the identity of the live process `pid`."""
        return cls(pid=pid, created=psutil.Process(pid).create_time(), stop_signal=stop_signal)

    def process(self) -> psutil.Process | None:
        """Return the process, or None when it has ended, also if its pid belongs to another process now."""
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(self.pid)
            # Creation times count from the boot time, which is rounded: two readings of one process may differ by a second.
            if abs(process.create_time() - self.created) < 2 and process.status() != psutil.STATUS_ZOMBIE:  # noqa: PLR2004 - seconds, see above
                return process
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class StackState:
    """The state that the supervisor of a stack publishes, in a file that only its owner can read."""

    supervisor: Identity
    ready: bool
    """Whether every part has answered."""
    environment: Mapping[str, str]
    """The variables with which clients connect to the stack; empty until it is ready."""

    def write(self, run: Path | None = None) -> None:
        """Replace the state file in the folder `run`; without one, in that of this checkout."""
        file = _file(run)
        file.parent.mkdir(parents=True, exist_ok=True)
        secret.write(file, json.dumps(asdict(self), indent=2))

    @classmethod
    def read(cls, run: Path | None = None) -> "StackState | None":
        """Return the state of the live supervisor, or None when no supervisor lives."""
        try:
            found = json.loads(_file(run).read_text())
        except FileNotFoundError:
            return None
        state = cls(supervisor=Identity(**found["supervisor"]), ready=found["ready"], environment=found["environment"])
        return state if state.supervisor.process() else None


def run_folder() -> Path:
    """Return the folder of what runs in this checkout: state, logs, data."""
    return settings.PROJECT / ".local" / "run"


def _file(run: Path | None) -> Path:
    return (run or run_folder()) / "stack.json"


def use() -> bool:
    """Set the variables of the running stack of this checkout; return whether one is up."""
    state = StackState.read()
    if state is None or not state.ready:
        return False
    os.environ |= state.environment
    return True


def connect() -> None:
    """Use the running stack of this checkout, unless a variable of Tideline is set.

    Raises:
        FatalError: None is set, and the stack is not up.
    """
    if not settings.is_configured() and not use():
        raise FatalError("the local stack is not up", next_step="run `make up`")
