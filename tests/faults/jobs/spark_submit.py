"""Run spark-submit as Airflow does: a JVM, which starts the Python driver and the parent of the Python workers."""

import contextlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from tideline import settings
from tideline.spark_jobs.session import WORKER_DAEMON
from tideline_stack import niceness, program_environment


class Job:
    """A running try of the task `write`.

    Args:
        pipeline: The pipeline of the batches.
        batch_ids: The batches to write.
        run_id: The DAG run; the DAG has the pipeline's name.
        try_number: The number of the try.
        variables: The variables of the servers and of the project.
        log: The file for its output.
        master: Spark's master.
    """

    def __init__(
        self,
        pipeline: str,
        batch_ids: Sequence[int],
        *,
        run_id: str,
        try_number: int,
        variables: Mapping[str, str],
        log: Path,
        master: str,
    ) -> None:
        self.run_id = run_id
        self.log = log
        scratch = log.with_suffix(".scratch")
        scratch.mkdir(parents=True)
        command = [
            str(program_environment.BIN / "spark-submit"), "--master", master, "--name", f"tideline-{pipeline}",
            "--properties-file", variables["TIDELINE_SPARK_PROPERTIES"],
            str(settings.PROJECT / "spark_jobs" / "write_batches.py"),
            f"--pipeline={pipeline}", f"--batches={','.join(map(str, batch_ids))}",
            f"--dag-id={pipeline}", f"--run-id={run_id}", "--task-id=write", f"--try-number={try_number}",
        ]  # fmt: skip
        # A killed JVM does not delete its temporary files.
        temporary = {"TMPDIR": str(scratch), "SPARK_SUBMIT_OPTS": f"-Djava.io.tmpdir={scratch}"}
        with log.open("wb") as output:
            self._popen = subprocess.Popen(
                command,
                env={**program_environment.clean(scratch), **variables, **temporary},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # so that processes that outlive the JVM can be found
            )
        niceness.keep(self._popen.pid)
        self.jvm = psutil.Process(self._popen.pid)

    @property
    def driver(self) -> psutil.Process | None:
        """Return the Python driver, while it lives."""
        return next((child for child in self._children() if WORKER_DAEMON not in _words(child)), None)

    def is_driven_by(self, pid: int) -> bool:
        """Return whether the process with this pid is its driver."""
        with contextlib.suppress(ProcessLookupError):
            return self.alive() and os.getsid(pid) == self._popen.pid
        return False

    @property
    def workers(self) -> list[psutil.Process]:
        """Return the Python workers, which run Spark's tasks."""
        with contextlib.suppress(psutil.NoSuchProcess):
            return [w for child in self._children() if WORKER_DAEMON in _words(child) for w in child.children()]
        return []

    def alive(self) -> bool:
        """Return whether spark-submit has not ended yet."""
        return self._popen.poll() is None

    def wait(self, seconds: float) -> int:
        """Wait for the exit code, as Airflow sees it; raise AssertionError if it has not ended in time."""
        try:
            return self._popen.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"spark-submit has not ended after {seconds:.0f} s: {self.log}") from None

    def left_behind(self) -> list[psutil.Process]:
        """Return its processes that still run after it has ended."""
        members = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
                if os.getsid(process.pid) == self._popen.pid and process.status() != psutil.STATUS_ZOMBIE:
                    members.append(process)
        return members

    def end(self) -> None:
        """Kill all its remaining processes."""
        for process in self.left_behind():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._popen.wait(180)

    def _children(self) -> list[psutil.Process]:
        """Return the Python processes that the JVM has started."""
        with contextlib.suppress(psutil.NoSuchProcess):
            return [
                child
                for child in self.jvm.children()
                if "write_batches.py" in _words(child) or WORKER_DAEMON in _words(child)
            ]
        return []


def _words(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        words = process.cmdline()
        return " ".join(words) if words and "python" in words[0] else ""  # none while it ends
    return ""
