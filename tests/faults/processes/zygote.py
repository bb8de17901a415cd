"""Provide a process that has imported everything, done nothing else, and forks on request: a new process then costs
milliseconds, not seconds.

It is itself forked before any connection is opened and any thread is started, so its children inherit neither.
"""

import gc
import os
import pickle
import signal
import socket
import struct
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import NoReturn, Self

from faults.processes import child
from faults.processes.child import Errand

_LENGTH = struct.Struct("!I")


class Zygote:
    """Starts processes. It ends when it is closed, or when its creator has ended; then its children receive an end of
    file."""

    def __init__(self) -> None:
        self._control, its = socket.socketpair()
        self._pid = os.fork()
        if self._pid == 0:
            self._control.close()
            _serve(its)
        its.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._control.close()
        os.waitpid(self._pid, 0)

    def start(self, errand: Errand | None) -> tuple[int, Connection]:
        """Start a process for one errand, or for all errands that are sent to it later (None). Return its pid, and
        the pipe to it."""
        mine, its = Pipe()
        text = pickle.dumps(errand)
        with its:
            socket.send_fds(self._control, [_LENGTH.pack(len(text))], [its.fileno()])
            self._control.sendall(text)
        return _LENGTH.unpack(_exactly(self._control, _LENGTH.size))[0], mine


def _serve(control: socket.socket) -> NoReturn:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.collect()
    gc.freeze()  # so that the collector does not touch, and children do not copy, the objects that exist now
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)  # the log of a task
    os.dup2(silence, 2)
    while True:
        length, descriptors, _, _ = socket.recv_fds(control, _LENGTH.size, 1)
        _reap()
        if not length:
            os._exit(0)
        text = _exactly(control, _LENGTH.unpack(length)[0])
        pid = os.fork()
        if pid == 0:
            control.close()
            _be_a_child(pickle.loads(text), Connection(descriptors[0]))
        os.close(descriptors[0])
        control.sendall(_LENGTH.pack(pid))


def _reap() -> None:
    """Reap children that have ended."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _be_a_child(errand: Errand | None, pipe: Connection) -> NoReturn:
    try:
        if errand is None:
            child.serve(pipe)
        else:
            child.run(errand, pipe)
    finally:
        os._exit(0)


def _exactly(source: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        part = source.recv(length - len(data))
        if not part:
            raise EOFError
        data += part
    return data
