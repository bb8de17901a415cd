"""The process that owns the stack of a checkout, and how to start, find and stop it.

It is the parent of every part, so that all of them end with it, and holds a lock for as long as it lives: a crash can
forget neither. Passwords are in its state file alone. Called by `python -m tideline.local`.
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
class State:
    """What the supervisor tells others, in a file that only its owner can read."""

    supervisor: Identity
    ready: bool
    """Whether every part answered."""
    environment: Mapping[str, str]
    """The variables for anyone who wants to talk to the stack; empty until it is ready."""

    def write(self, run: Path = RUN) -> None:
        """Replace the state file."""
        run.mkdir(parents=True, exist_ok=True)
        secret.write(run / "stack.json", json.dumps(asdict(self), indent=2))

    @classmethod
    def read(cls, run: Path = RUN) -> "State | None":
        """The state of the supervisor that lives; None when there is none."""
        try:
            found = json.loads((run / "stack.json").read_text())
        except FileNotFoundError:
            return None
        state = cls(supervisor=Identity(**found["supervisor"]), ready=found["ready"], environment=found["environment"])
        return state if state.supervisor.process() else None


def launch(*, unpaused: bool) -> State:
    """Start a supervisor apart from this terminal, show its progress and return when the stack is up.

    Raises:
        RetryableError: It did not come up; why was shown before.
    """
    command = [sys.executable, "-m", "tideline.local", "supervise", *(["--unpaused"] if unpaused else [])]
    supervisor = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    niceness.keep(supervisor.pid)
    assert supervisor.stdout is not None  # noqa: S101 - for the type checker: it was asked for above
    try:
        while shown := os.read(supervisor.stdout.fileno(), 4096):  # ends when the supervisor lets go of it
            sys.stdout.write(shown.decode(errors="replace"))
            sys.stdout.flush()
    except KeyboardInterrupt:
        print("\nstopping what was started")
        supervisor.terminate()
        supervisor.wait(_STOP_SECONDS)
        raise
    state = State.read()
    if state is None or not state.ready:
        raise RetryableError("the local stack did not come up", next_step="see above, then run `make up` again")
    return state


def supervise(*, unpaused: bool) -> None:
    """Be the supervisor: start the stack, then wait for SIGTERM and stop it.

    Raises:
        RetryableError: A part did not come up, or another supervisor is at work.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with _alone():
        end_recorded(RUN)
        own = Identity.of(os.getpid())
        State(supervisor=own, ready=False, environment={}).write()
        dags, plugins = settings.PROJECT / "dags", settings.PROJECT / "plugins"
        airflow = AirflowOptions(dags=dags, plugins=plugins, unpaused=unpaused)
        try:
            with Stack(RUN, airflow=airflow, usual_ports=True, step=show_step) as stack:
                State(supervisor=own, ready=True, environment=stack.environment()).write()
                _leave_terminal(RUN / "supervisor.log")
                _watch(stack)
        finally:
            (RUN / "stack.json").unlink(missing_ok=True)


def stop() -> int:
    """Ask the supervisor, if there is one, to stop the stack; then end whatever a crashed one left behind.

    Returns:
        How many processes were running.
    """
    running = sum(identity.process() is not None for identity in recorded(RUN).values())
    if state := State.read():
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
    """Print the name of a step at its begin and its seconds at its end, on one line."""
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
    """Hold the lock that only one supervisor, or one that clears up after it, can have; it goes with the process."""
    RUN.mkdir(parents=True, exist_ok=True)
    with (RUN / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RetryableError(
                "another `make up` or `make down` is at work in this checkout", next_step="wait until it is done"
            ) from None
        yield


def _watch(stack: Stack) -> None:
    """Until the end, start again what dies: nobody looks at a stack that is up, and without a scheduler runs would wait for ever."""
    try:
        while True:
            time.sleep(_LOOK_SECONDS)
            start_again(stack)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # asked twice, it must still finish stopping


def start_again(stack: Stack) -> None:
    """Start the parts that have ended, and say so; one that does not come up is tried again the next time."""
    for name in stack.ended():
        print(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {name} had ended and is started again", flush=True)
        try:
            stack.start_again(name)
        except RetryableError as error:
            print(error, flush=True)


def _leave_terminal(log: Path) -> None:
    """Hand stdout and stderr over to `log`: whoever reads them learns by their end that the stack is up."""
    with log.open("a") as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
