"""Run commands of `tideline` in processes of their own, which a server forks: it has imported the command line once, as each of them would.

From the shell a command needs most of a second of processor time for that, and a tenth for what it does.

python cli_server.py: takes requests from its standard input, a socket, until that is closed.
"""

import atexit
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, NoReturn

from tideline.cli import main

TIDELINE = Path(sys.executable).parent / "tideline"


def run(
    arguments: Sequence[str | bytes], environment: Mapping[str, str], *, timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run `tideline` with these arguments, and with no variables but these.

    Raises:
        subprocess.TimeoutExpired: it has not ended within so many seconds; it is killed.
    """
    words = [str(TIDELINE), *map(os.fsdecode, arguments)]  # a word may be bytes that are no text
    request = {"words": words, "environment": dict(environment), "folder": str(Path.cwd())}
    # Files without names: a request may hold a password.
    with TemporaryFile() as asked, TemporaryFile() as out, TemporaryFile() as err:
        asked.write(json.dumps(request).encode())
        asked.flush()
        answer, theirs = os.pipe()
        try:
            socket.send_fds(_server(), [b"."], [asked.fileno(), out.fileno(), err.fileno(), theirs])
        finally:
            os.close(theirs)
        with os.fdopen(answer, "rb", buffering=0) as said:
            code = _ended(said, words, timeout)
        return subprocess.CompletedProcess(words, code, _text(out), _text(err))


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode().replace("\r\n", "\n")


def _ended(said: IO[bytes], words: Sequence[str], timeout: float) -> int:
    """Wait for a command, and return its exit code. What is said is its process's id, and then the code."""
    pid, deadline = int(said.readline()), time.monotonic() + timeout
    if not select.select([said], [], [], max(0.0, deadline - time.monotonic()))[0]:
        os.kill(pid, signal.SIGKILL)
        raise subprocess.TimeoutExpired(list(words), timeout)
    return int(said.readline())


@cache
def _server() -> socket.socket:
    """Start the server of this process. It ends with it."""
    ours, theirs = socket.socketpair()
    environment = {name: text for name, text in os.environ.items() if not name.startswith(("TIDELINE_", "PYTHON"))}
    with theirs:
        process = subprocess.Popen([sys.executable, __file__], stdin=theirs.fileno(), env=environment)

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def _serve() -> None:
    """Fork a process for each request. Return in that of a command, and there only."""
    for room in ("tideline.cli.commands", "tideline.reports"):
        for module in pkgutil.iter_modules(importlib.import_module(room).__path__, f"{room}."):
            importlib.import_module(module.name)
    gc.freeze()  # else a collection would copy what the processes share
    with socket.socket(fileno=os.dup(0)) as requests:
        while True:
            _, files, *_ = socket.recv_fds(requests, 1, 4)
            if not files:
                sys.exit()
            if os.fork() == 0:
                break
            for file in files:
                os.close(file)
            # The processor time of those that have ended is counted when they are waited for.
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
    _become_a_command(*files)


def _become_a_command(asked: int, out: int, err: int, answer: int) -> None:
    """Fork once more. Return in the new process, as if a shell had started it; this one waits for it, and tells its exit code."""
    pid = os.fork()
    if pid:
        os.write(answer, f"{pid}\n".encode())
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        os.write(answer, f"{code}\n".encode())
        os._exit(0)
    os.lseek(asked, 0, os.SEEK_SET)
    with os.fdopen(asked, "rb") as file:
        request = json.load(file)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for ours, theirs in ((nothing, 0), (out, 1), (err, 2)):
        os.dup2(ours, theirs)
        os.close(ours)
    os.close(answer)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.argv[:] = request["words"]


def _command() -> NoReturn:
    """Run the command, and end as the interpreter ends. That would take apart each module first, which takes longer than most commands."""
    code: object = 0
    try:
        main()
    except SystemExit as ended:
        code = ended.code
    except BaseException:  # noqa: BLE001 - the interpreter would print it as well
        traceback.print_exc()
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]  # it waits for threads
    atexit._run_exitfuncs()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)


if __name__ == "__main__":
    _serve()
    _command()
