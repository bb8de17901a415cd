"""Define what can be done to a process before one of its steps."""

import signal
import socket
from collections.abc import Iterator
from enum import StrEnum

from faults.processes.gate import Kind, Outcome, Step
from faults.processes.process import PATIENCE_SECONDS, LiveProcess
from servers.cutting_proxy import Act, CuttingProxy, cut_after, cut_before
from tideline.errors import RetryableError


class Fault(StrEnum):
    """The faults, which are the columns of the matrix."""

    KILLED = "killed"
    ERROR = "error"
    FROZEN = "frozen"
    CUT = "cut off"
    KEPT = "kept, cut off"
    """The COMMIT takes effect, and its answer is lost. After a commit to a lake, storage does not answer any more."""
    KEPT_KILLED = "kept, killed"
    """The COMMIT takes effect, and the process is killed before it reads the answer."""


def faults_of(kind: Kind) -> tuple[Fault, ...]:
    """Return the faults that can strike at a step of this kind."""
    match kind:
        case Kind.COMMIT | Kind.PUT:
            return tuple(Fault)
        case Kind.END:
            return (Fault.KILLED, Fault.FROZEN)
        case _:
            return (Fault.KILLED, Fault.ERROR, Fault.FROZEN, Fault.CUT)


def steps_of(process: LiveProcess) -> Iterator[tuple[str, Step]]:
    """Yield each step before which the process waits, with a name that numbers repetitions. Asking for the next one
    lets the process continue."""
    seen: dict[str, int] = {}
    while process.hear(PATIENCE_SECONDS) and process.at is not None:
        number = seen[process.at.name] = seen.get(process.at.name, 0) + 1
        yield (process.at.name if number == 1 else f"{process.at.name} ({number})"), process.at
        if process.at is not None:
            process.go()


def strike(proxy: CuttingProxy, process: LiveProcess, step: Step, fault: Fault, error: type[BaseException]) -> None:
    """Strike the process at a step; `error` is the class of an injected error."""
    match fault:
        case Fault.KILLED:
            process.kill()
        case Fault.ERROR:
            process.go(error("an unexpected error"))
        case Fault.FROZEN:
            process.freeze()
            process.go()
        case _ if step.kind in {Kind.LAKE, Kind.PUT}:
            _cut_off_from_storage(process, fault)
        case Fault.CUT if step.kind is Kind.ASK:
            process.go(RetryableError("the brokers did not answer within 10 s", next_step="wait"))
        case Fault.CUT if step.kind is Kind.COPY:
            proxy.at(f'"{step.table}"', cut_before)
            process.go()
        case Fault.CUT:
            if step.port is not None:  # a sleep has no connection
                proxy.cut(step.port)
            process.go()
        case Fault.KEPT | Fault.KEPT_KILLED:
            proxy.at("COMMIT", cut_after if fault is Fault.KEPT else _kill_after(process), port=step.port)
            process.go()


def _cut_off_from_storage(process: LiveProcess, fault: Fault) -> None:
    if fault is Fault.CUT:
        process.go(OSError("Generic LocalFileSystem error: storage does not answer"))
    else:
        process.go(put=Outcome(arrives=True, dies=fault is Fault.KEPT_KILLED, away=True))


def _kill_after(process: LiveProcess) -> Act:
    def act(server: socket.socket, data: bytes) -> bool:
        server.sendall(data)
        assert server.recv(1 << 20)
        process.signal(signal.SIGKILL)
        return False

    return act
