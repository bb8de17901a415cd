"""Control a real process from the conductor: it waits at each step until it may continue, and faults are real signals
of the system."""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from faults.processes.child import Errand
from faults.processes.gate import Answer, Ended, Entry, Outcome, Put, Question, Step

PATIENCE_SECONDS = 120


class HangsError(AssertionError):
    """A process neither continues nor ends, and waits for no other process."""


class LiveProcess:
    """A process that was started.

    Args:
        pid: The pid of the process.
        pipe: The pipe to the process.
        answer: Answers its questions to Kafka.
    """

    def __init__(self, pid: int, pipe: Connection, answer: Callable[[Question], Any]) -> None:
        self.pid = pid
        self.at: Step | None = None
        """The step before which it waits."""
        self.entry: Entry | None = None
        """What it is about to send to a Delta table, if that step is a put."""
        self.outcome: Ended | None = None
        """Its result; None also if it ended without reporting one."""
        self.gone = False
        self._handle = os.pidfd_open(pid)  # the system may reuse the pid
        self._pipe = pipe
        self._answer = answer
        self._question: Question | None = None

    def hear(self, seconds: float) -> bool:
        """Return whether it reaches a step or its end within `seconds`."""
        if self.gone or self.at is not None:
            return True
        if not self._pipe.poll(seconds):
            return False
        try:
            message = self._pipe.recv()
        except (EOFError, ConnectionResetError):
            self._part()
            return True
        match message:
            case Ended():
                self.outcome = message
                self._part()
            case Question():
                self._question = message
                self.at = message.step
            case Put():
                self.entry = message.entry
                self.at = message.step
            case Step():
                self.at = message
        return True

    def go(self, error: BaseException | None = None, *, put: Outcome | None = None) -> None:
        """Let it take the step, or raise this error in it instead; `put` says what becomes of the entry that it
        sends."""
        answer = Answer(put, error) if error or put else answered(self._question, self._answer)
        self.at = self._question = self.entry = None
        with suppress(BrokenPipeError):
            self._pipe.send(answer)

    def kill(self) -> None:
        """Send SIGKILL, and return when the process has ended."""
        self.signal(signal.SIGKILL)
        while not self.gone:
            self.at = None
            if not self.hear(PATIENCE_SECONDS):
                raise HangsError(f"process {self.pid} outlives SIGKILL")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; no effect if the process has ended by itself."""
        if not self.gone:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, number)

    def freeze(self) -> None:
        """Send SIGSTOP."""
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Send SIGCONT."""
        self.signal(signal.SIGCONT)

    def _part(self) -> None:
        self.gone = True
        self._pipe.close()
        os.close(self._handle)


def finished(process: LiveProcess) -> Ended:
    """Let the process continue to its end and return its result.

    Raises:
        HangsError: It does not end.
    """
    while not process.gone:
        if not process.hear(PATIENCE_SECONDS):
            raise HangsError(f"process {process.pid} does nothing for {PATIENCE_SECONDS} s")
        if not process.gone:
            process.go()
    return process.outcome or Ended(error="killed")


class HelperProcess:
    """A process that carries out one errand after the other, without faults."""

    def __init__(self, pid: int, pipe: Connection) -> None:
        self._pid = pid
        self._pipe = pipe

    def end(self) -> None:
        """End the process."""
        self._pipe.close()

    def do(self, errand: Errand, answer: Callable[[Question], Any]) -> Ended:
        """Carry out an errand from beginning to end, and return its result."""
        self._pipe.send(errand)
        while True:
            if not self._pipe.poll(PATIENCE_SECONDS):
                raise HangsError(f"{errand.tasks} is not done after {PATIENCE_SECONDS} s")
            message = self._pipe.recv()
            if isinstance(message, Ended):
                return message
            self._pipe.send(answered(message, answer))


def answered(question: Question | None, answer: Callable[[Question], Any]) -> Answer:
    """Return Kafka's answer to a question, or its error."""
    try:
        return Answer(None if question is None else answer(question))
    except Exception as refused:  # noqa: BLE001 - passed on as the broker's answer
        return Answer(error=refused)
