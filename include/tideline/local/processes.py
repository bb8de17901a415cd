"""Child processes of the local stack: start, wait until ready, end.

Owns the identity of a process (pid and creation time), the record of it beside its log file, and the order of signals.
Never ends a process that it cannot identify, and never by name. Called by each part of the stack and by `make down`.
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
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from tideline.errors import RetryableError
from tideline.local import niceness

_LOG_TAIL = 15
_PR_SET_PDEATHSIG = 1
_RECORD = ".pid"
# Loaded before any fork: between fork and exec the child must not take the loader's locks.
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """One process for good: the system gives a pid away again, but not with the same creation time."""

    pid: int
    created: float
    """Seconds since the epoch."""
    stop_signal: int = signal.SIGTERM
    """The signal that asks it to stop gracefully."""

    @classmethod
    def of(cls, pid: int, *, stop_signal: int = signal.SIGTERM) -> "Identity":
        """The identity of the live process `pid`."""
        return cls(pid=pid, created=psutil.Process(pid).create_time(), stop_signal=stop_signal)

    def process(self) -> psutil.Process | None:
        """The process, or None when it is gone, even if its pid is in use again."""
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(self.pid)
            # The boot time, which creation times count from, is rounded: it may differ by a second between readers.
            if abs(process.create_time() - self.created) < 2 and process.status() != psutil.STATUS_ZOMBIE:  # noqa: PLR2004 - seconds, as said above
                return process
        return None


class Child:
    """A started program: output goes to a log file, identity to a record beside it. It ends when its starter dies.

    Start it from a thread that lives as long as it should: Linux counts the end of the starting *thread* as its death.

    Args:
        name: What people call it.
        command: The program and its arguments. Never a secret: every user of the machine can read them.
        log: The file for its output; the one before is kept beside it.
        cwd: The folder that it runs in; it must be able to pass it.
        environment: All of its environment; None hands on the caller's.
        user: The uid and gid to run as; None stays with the caller's.
        stop_signal: The signal that asks it to stop gracefully.
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
            )  # an error shows the end of this run's log, not the last one's
        with log.open("ab") as output:
            self._popen = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                env=environment,
                # A session of its own: Ctrl-C in a terminal must not stop the parts in any order, and what a killed
                # part leaves behind can still be found.
                start_new_session=True,
                preexec_fn=_tie_to_parent(stop_signal),  # noqa: PLW1509 - one system call, libc loaded beforehand
                **account,  # type: ignore[call-overload]  # the stub wants literal keyword arguments
            )
        self.pid = self._popen.pid
        self.identity = Identity.of(self.pid, stop_signal=stop_signal)
        self._record = log.with_suffix(_RECORD)
        self._record.write_text(json.dumps(asdict(self.identity)))
        niceness.keep(self.pid)  # behind the record: it may have to wait

    def wait_until(self, ready: Callable[[], bool], *, seconds: float) -> None:
        """Return as soon as `ready()` is true.

        Raises:
            RetryableError: It ended, or was not ready within `seconds`.
        """
        deadline = time.monotonic() + seconds
        while not ready():
            if self._popen.poll() is not None:
                raise self._failure(f"ended with exit code {self._popen.returncode} before it was ready")
            if time.monotonic() > deadline:
                raise self._failure(f"was not ready after {seconds:.0f} s")
            time.sleep(0.05)

    def finish(self, *, seconds: float) -> None:
        """Wait for a program that ends by itself.

        Raises:
            RetryableError: It failed, or was not done within `seconds`.
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
        """Whether it still runs."""
        return self._popen.poll() is None

    def stop(self, *, patience: float = 30) -> None:
        """Ask it to stop, wait up to `patience` seconds, then kill it and whatever it left behind."""
        end([self.identity], patience=patience)
        self._popen.wait()
        self._record.unlink(missing_ok=True)

    def _failure(self, what: str) -> RetryableError:
        lines = self.log.read_text(errors="replace").splitlines()[-_LOG_TAIL:]
        shown = "\n".join(f"    {line}" for line in lines) or "    (empty)"
        return RetryableError(
            f"{self.name} {what}; the end of its log:\n{shown}",
            next_step=f"read {self.log}, put the cause right and run the same command again",
        )


def recorded(directory: Path) -> dict[Path, Identity]:
    """The records of the parts below `directory`: of those that run, and of those that nobody has stopped."""
    return {file: Identity(**json.loads(file.read_text())) for file in directory.glob(f"*/*{_RECORD}")}


def end_recorded(directory: Path, *, patience: float = 30) -> None:
    """End what the records below `directory` name, the newest first: what a supervisor that was killed left behind."""
    for file, identity in sorted(recorded(directory).items(), key=lambda item: item[1].created, reverse=True):
        end([identity], patience=patience)
        file.unlink(missing_ok=True)


def end(identities: Iterable[Identity], *, patience: float) -> None:
    """Ask each of these processes that still lives to stop; after `patience` seconds kill what is left.

    What they started goes with them, also what outlived them: it is found by its session.
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
    """The live processes of the session that `leader` opened; none when another process has its pid by now."""
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
    """What the child does before exec, so that it gets `death_signal` when its parent dies, even by kill -9."""
    if _LIBC is None:
        return None
    libc, parent = _LIBC, os.getpid()

    def tie() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, int(death_signal))
        if os.getppid() != parent:  # it died in between: no signal will come any more
            os._exit(1)

    return tie
