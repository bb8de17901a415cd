"""Child processes of the local stack: start them, wait until they are ready, end them.

Owns the record file of a process beside its log file, and the order of signals. Ends only processes that it can
identify, and never by name. Called by each part of the stack and by `make down`.
"""

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import psutil

from tideline.deployment.local_stack import Identity
from tideline.errors import RetryableError
from tideline_stack import niceness

_LOG_TAIL = 15
_PR_SET_PDEATHSIG = 1
_SOON_S, _SELDOM_S = 0.02, 0.5
"""Shortest and longest pause in seconds between two questions whether a program is ready."""
_RECORD = ".pid"
# Loaded before any fork: between fork and exec the child must not take the dynamic loader's locks.
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


class Child:
    """A started program. Its output is written to a log file, its identity to a record beside it. It ends when its parent dies.

    Start it from a thread that lives as long as the program should: to Linux the parent is the *thread* that started it.

    Args:
        name: Its name in messages.
        command: The program and its arguments. They must hold no secret: every user of the machine can read them.
        log: The file for its output. The log of the previous run is kept beside it.
        cwd: The folder that it runs in, which its account must be able to enter.
        environment: Its whole environment; None means that of the caller.
        user: The uid and gid to run as; None keeps those of the caller.
        stop_signal: The signal that requests a graceful stop.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log: Path,
        cwd: Path,
        environment: Mapping[str, str] | None = None,
        user: tuple[int, int] | None = None,
        stop_signal: signal.Signals = signal.SIGTERM,
    ) -> None:
        self.name = name
        self.log = log
        account = {"user": user[0], "group": user[1], "extra_groups": []} if user else {}
        log.parent.mkdir(parents=True, exist_ok=True)
        if log.exists():
            log.replace(
                log.with_suffix(".previous.log")
            )  # an error quotes the end of the log, which must be of this run
        with log.open("ab") as output:
            self._popen = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                env=environment,
                # A session of its own, for two reasons: Ctrl-C in a terminal must not stop all parts at once, in no order;
                # and the child processes of a part that was killed can still be found, by their session.
                start_new_session=True,
                preexec_fn=_tie_to_parent(stop_signal),  # noqa: PLW1509 - one system call, and libc is loaded already
                **account,  # type: ignore[call-overload]  # the stub wants literal keyword arguments
            )
        self.pid = self._popen.pid
        self.identity = Identity.of(self.pid, stop_signal=stop_signal)
        self._record = log.with_suffix(_RECORD)
        self._record.write_text(json.dumps(asdict(self.identity)))
        niceness.keep(self.pid)  # after the record is written, because it may have to wait

    def wait_until(self, ready: Callable[[], bool], *, seconds: float) -> None:
        """Return as soon as `ready()` is true.

        Raises:
            RetryableError: The program ended, or was not ready within `seconds`.
        """
        begun = time.monotonic()
        while not ready():
            if self._popen.poll() is not None:
                raise self._failure(f"ended with exit code {self._popen.returncode} before it was ready")
            waited = time.monotonic() - begun
            if waited > seconds:
                raise self._failure(f"was not ready after {seconds:.0f} s")
            # The longer it takes, the less often it is asked: questions take processor time from the start that they wait for.
            time.sleep(min(max(_SOON_S, waited / 20), _SELDOM_S))

    def finish(self, *, seconds: float) -> None:
        """Wait for a program that ends by itself.

        Raises:
            RetryableError: The program failed, or had not ended within `seconds`.
        """
        try:
            code = self._popen.wait(seconds)
        except subprocess.TimeoutExpired:
            self.stop(patience=5)
            raise self._failure(f"was not done after {seconds:.0f} s") from None
        self._record.unlink(missing_ok=True)
        if code:
            raise self._failure(f"failed with exit code {code}")

    def alive(self) -> bool:
        """Return whether the program still runs."""
        return self.exit_code() is None

    def exit_code(self) -> int | None:
        """Return how the program has ended: its exit code, or the negative number of a signal; None while it runs."""
        code: int | None = self._popen.poll()
        return code

    def stop(self, *, patience: float = 30) -> None:
        """Send the stop signal, wait up to `patience` seconds, then kill the program and all that is left of its session."""
        end([self.identity], patience=patience)
        self._popen.wait()
        self._record.unlink(missing_ok=True)

    def _failure(self, what: str) -> RetryableError:
        lines = self.log.read_text(errors="replace").splitlines()[-_LOG_TAIL:]
        shown = "\n".join(f"    {line}" for line in lines) or "    (empty)"
        return RetryableError(
            f"{self.name} {what}; the end of its log:\n{shown}",
            next_step=f"read {self.log}, fix the cause and run the same command again",
        )


def recorded(directory: Path) -> dict[Path, Identity]:
    """Return the records below `directory` by file: of parts that run, and of parts that died without being stopped."""
    return {file: Identity(**json.loads(file.read_text())) for file in directory.glob(f"*/*{_RECORD}")}


def end_recorded(directory: Path, *, patience: float = 30) -> None:
    """End the processes that the records below `directory` name, the newest first. A supervisor that was killed leaves such records."""
    for file, identity in sorted(recorded(directory).items(), key=lambda item: item[1].created, reverse=True):
        end([identity], patience=patience)
        file.unlink(missing_ok=True)


def end(identities: Iterable[Identity], *, patience: float) -> None:
    """Send each of these processes its stop signal; after `patience` seconds kill those that still live.

    All other processes of their sessions are killed too, also where the process that started them has ended before.
    """
    known = list(identities)
    asked = []
    for identity in known:
        if process := identity.process():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(identity.stop_signal)
            asked.append(process)
    psutil.wait_procs(asked, timeout=patience)
    rest = [process for identity in known for process in _session(identity)]
    for process in rest:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(rest, timeout=5)


def _session(leader: Identity) -> list[psutil.Process]:
    """Return the live processes of the session that `leader` opened; none when its pid belongs to another process now."""
    if psutil.pid_exists(leader.pid) and leader.process() is None and not _is_zombie(leader.pid):
        return []
    members = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError, PermissionError):
            if os.getsid(process.pid) == leader.pid and process.create_time() >= leader.created - 2:
                members.append(process)
    return members


def _is_zombie(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    return False


def _tie_to_parent(death_signal: signal.Signals) -> Callable[[], None] | None:
    """Return the function that the child runs before exec, so that it gets `death_signal` when its parent dies, even by kill -9."""
    if _LIBC is None:
        return None
    libc, parent = _LIBC, os.getpid()

    def tie() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, int(death_signal))
        if os.getppid() != parent:  # the parent died before the call of prctl: no signal would be sent any more
            os._exit(1)

    return tie
