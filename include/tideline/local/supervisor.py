"""The supervisor: the process that owns the stack of a checkout. This module starts, finds and stops it.

The supervisor is the parent of every part, so that all parts end with it. It holds a lock for as long as it lives. If
it crashes, the system itself ends the parts and releases the lock. Passwords are stored only in its state file. Called by
`python -m tideline.local`.
"""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import psutil

from tideline import settings
from tideline.errors import RetryableError
from tideline.local import niceness, secret
from tideline.local.airflow_processes import AirflowOptions
from tideline.local.processes import Identity, end_recorded, recorded
from tideline.local.stack import Stack

RUN = settings.PROJECT / ".local" / "run"
_STOP_SECONDS = 90
_LOOK_SECONDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorState:
    """The state that the supervisor publishes, in a file that only its owner can read."""

    supervisor: Identity
    ready: bool
    """Whether every part has answered."""
    environment: Mapping[str, str]
    """The variables with which clients connect to the stack; empty until it is ready."""

    def write(self, run: Path = RUN) -> None:
        """Replace the state file."""
        run.mkdir(parents=True, exist_ok=True)
        secret.write(run / "stack.json", json.dumps(asdict(self), indent=2))

    @classmethod
    def read(cls, run: Path = RUN) -> "SupervisorState | None":
        """Return the state of the live supervisor, or None when no supervisor lives."""
        try:
            found = json.loads((run / "stack.json").read_text())
        except FileNotFoundError:
            return None
        state = cls(supervisor=Identity(**found["supervisor"]), ready=found["ready"], environment=found["environment"])
        return state if state.supervisor.process() else None


def launch(*, unpaused: bool) -> SupervisorState:
    """Start a supervisor in a session of its own, show its progress and return when the stack is up.

    Raises:
        RetryableError: The stack did not come up. The supervisor's output, shown before, holds the cause.
    """
    command = [sys.executable, "-m", "tideline.local", "supervise", *(["--unpaused"] if unpaused else [])]
    supervisor = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    niceness.keep(supervisor.pid)
    assert supervisor.stdout is not None  # noqa: S101 - for the type checker: PIPE is set above
    try:
        while shown := os.read(supervisor.stdout.fileno(), 4096):  # ends when the supervisor redirects its output
            sys.stdout.write(shown.decode(errors="replace"))
            sys.stdout.flush()
    except KeyboardInterrupt:
        print("\nstopping what was started")
        supervisor.terminate()
        supervisor.wait(_STOP_SECONDS)
        raise
    state = SupervisorState.read()
    if state is None or not state.ready:
        raise RetryableError("the local stack did not come up", next_step="see above, then run `make up` again")
    return state


def supervise(*, unpaused: bool) -> None:
    """Run as the supervisor: start the stack, then wait for SIGTERM and stop it.

    Raises:
        RetryableError: A part did not start, or another supervisor holds the lock.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with _alone():
        end_recorded(RUN)
        own = Identity.of(os.getpid())
        SupervisorState(supervisor=own, ready=False, environment={}).write()
        dags, plugins = settings.PROJECT / "dags", settings.PROJECT / "plugins"
        airflow = AirflowOptions(dags=dags, plugins=plugins, unpaused=unpaused)
        try:
            with Stack(RUN, airflow=airflow, usual_ports=True, step=show_step) as stack:
                SupervisorState(supervisor=own, ready=True, environment=stack.environment()).write()
                _leave_terminal(RUN / "supervisor.log")
                _watch(stack)
        finally:
            (RUN / "stack.json").unlink(missing_ok=True)


def stop() -> int:
    """Send SIGTERM to the supervisor, if there is one, and wait; then end the processes that a crashed supervisor has left behind.

    Returns:
        How many processes were running.
    """
    running = sum(identity.process() is not None for identity in recorded(RUN).values())
    if state := SupervisorState.read():
        process = psutil.Process(state.supervisor.pid)
        process.terminate()
        for stuck in psutil.wait_procs([process], timeout=_STOP_SECONDS)[1]:
            stuck.kill()
            stuck.wait(5)
    with _alone():
        end_recorded(RUN)
        (RUN / "stack.json").unlink(missing_ok=True)
    return running


@contextmanager
def show_step(name: str) -> Iterator[None]:
    """Print the name of a step when it begins and its duration in seconds when it ends, on one line."""
    begin = time.monotonic()
    print(f"  {name:<34}", end="", flush=True)
    try:
        yield
    except BaseException:
        print(" failed", flush=True)
        raise
    print(f"{time.monotonic() - begin:7.1f} s", flush=True)


@contextmanager
def _alone() -> Iterator[None]:
    """Hold the lock of this checkout: only one supervisor, or one `make down`, can have it. It is released when the process ends.

    Raises:
        RetryableError: Another process holds it.
    """
    RUN.mkdir(parents=True, exist_ok=True)
    with (RUN / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RetryableError(
                "another `make up` or `make down` is running in this checkout", next_step="wait until it has ended"
            ) from None
        yield


def _watch(stack: Stack) -> None:
    """Restart parts that die or hang, until SIGTERM: the stack is not watched by a person, and without a scheduler runs would wait for ever."""
    try:
        while True:
            time.sleep(_LOOK_SECONDS)
            start_again(stack)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second SIGTERM must not interrupt the stop


def start_again(stack: Stack) -> None:
    """Start the parts that have failed, and log it. A part that does not start is tried again at the next call."""
    for name, why in stack.failed().items():
        print(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {name} {why} and is started again", flush=True)
        try:
            stack.start_again(name)
        except RetryableError as error:
            print(error, flush=True)


def _leave_terminal(log: Path) -> None:
    """Redirect stdout and stderr to `log`. This closes the pipe to `make up`, which thereby learns that the stack is up."""
    with log.open("a") as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
