"""The conductor's end of a process: it waits at each step until it is let go on, and what is done to it is done by the system."""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from faults.processes.child import Errand
from faults.processes.gate import Answer, Ended, Question, Step

PATIENCE_SECONDS = 120


class HangsError(AssertionError):
    """A process neither goes on nor ends, and waits for nobody."""


class LiveProcess:
    """A process that was started.

    Args:
        pid: Its own.
        pipe: To it.
        answer: What Kafka says to a question.
    """

    def __init__(self, pid: int, pipe: Connection, answer: Callable[[Question], Any]) -> None:
        self.pid = pid
        self.at: Step | None = None
        """The step before which it waits."""
        self.outcome: Ended | None = None
        """What it said at the end; None also where it did not get to say anything."""
        self.gone = False
        self._handle = os.pidfd_open(pid)  # the system may give the pid to somebody else
        self._pipe = pipe
        self._answer = answer
        self._question: Question | None = None

    def hear(self, seconds: float) -> bool:
        """Whether it has reached a step or its end within so many seconds."""
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
            case Step():
                self.at = message
        return True

    def go(self, error: BaseException | None = None) -> None:
        """Let it do the step, or let this happen to it instead."""
        answer = Answer(error=error) if error is not None else answered(self._question, self._answer)
        self.at = self._question = None
        with suppress(BrokenPipeError):
            self._pipe.send(answer)

    def kill(self) -> None:
        """SIGKILL; returns when nothing of it is left."""
        self.signal(signal.SIGKILL)
        while not self.gone:
            self.at = None
            if not self.hear(PATIENCE_SECONDS):
                raise HangsError(f"process {self.pid} outlives SIGKILL")

    def signal(self, number: signal.Signals) -> None:
        """Nothing where it has ended by itself."""
        if not self.gone:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, number)

    def freeze(self) -> None:
        """SIGSTOP."""
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        self.signal(signal.SIGCONT)

    def _part(self) -> None:
        self.gone = True
        self._pipe.close()
        os.close(self._handle)


def finished(process: LiveProcess) -> Ended:
    """Let it go on to its end; what came of it.

    Raises:
        HangsError: It does not end.
    """
    while not process.gone:
        if not process.hear(PATIENCE_SECONDS):
            raise HangsError(f"process {process.pid} does nothing for {PATIENCE_SECONDS} s")
        if not process.gone:
            process.go()
    return process.outcome or Ended(error="killed")


class Stagehand:
    """Does what nobody strikes, one errand after the other."""

    def __init__(self, pid: int, pipe: Connection) -> None:
        self._pid = pid
        self._pipe = pipe

    def end(self) -> None:
        """It is not needed any more."""
        self._pipe.close()

    def do(self, errand: Errand, answer: Callable[[Question], Any]) -> Ended:
        """The errand, from beginning to end."""
        self._pipe.send(errand)
        while True:
            if not self._pipe.poll(PATIENCE_SECONDS):
                raise HangsError(f"{errand.tasks} is not done after {PATIENCE_SECONDS} s")
            message = self._pipe.recv()
            if isinstance(message, Ended):
                return message
            self._pipe.send(answered(message, answer))


def answered(question: Question | None, answer: Callable[[Question], Any]) -> Answer:
    """What Kafka says, or how it refuses."""
    try:
        return Answer(None if question is None else answer(question))
    except Exception as refused:  # noqa: BLE001 - what the broker says
        return Answer(error=refused)
