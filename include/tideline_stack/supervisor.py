"""The supervisor: the process that owns the stack of a checkout. This module starts, finds and stops it.

The supervisor is the parent of every part, so that all parts end with it. It holds a lock for as long as it lives. If
it crashes, the system itself ends the parts and releases the lock. Passwords are stored only in its state file. Called by
`python -m tideline_stack`.
"""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import psutil

from tideline import settings
from tideline.deployment.local_stack import Identity, StackState, run_folder
from tideline.errors import RetryableError
from tideline_stack import niceness
from tideline_stack.airflow_processes import AirflowOptions
from tideline_stack.processes import end_recorded, recorded
from tideline_stack.stack import Stack

RUN = run_folder()
_STOP_SECONDS = 90
_LOOK_SECONDS = 5


def launch(*, unpaused: bool) -> StackState:
    """Start a supervisor in a session of its own, show its progress and return when the stack is up.

    Raises:
        RetryableError: The stack did not come up. The supervisor's output, shown before, holds the cause.
    """
    command = [sys.executable, "-m", "tideline_stack", "supervise", *(["--unpaused"] if unpaused else [])]
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
    state = StackState.read()
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
        StackState(supervisor=own, ready=False, environment={}).write()
        dags, plugins = settings.PROJECT / "dags", settings.PROJECT / "plugins"
        airflow = AirflowOptions(dags=dags, plugins=plugins, unpaused=unpaused)
        try:
            with Stack(
                RUN,
                airflow=airflow,
                registry=True,
                usual_ports=True,
                postgres_settings={"wal_level": "logical"},  # the tour reads the changes of a table in its log
                step=show_step,
            ) as stack:
                StackState(supervisor=own, ready=True, environment=stack.environment()).write()
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
    if state := StackState.read():
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
