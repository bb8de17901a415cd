"""Sample the memory of write tasks once a second, and keep the peak of each tenth of the backlog."""

import threading
from collections.abc import Callable

import psutil

from faults.jobs.spark_submit import Job
from faults.jobs.write_progress import Witness

TENTHS = 10
_EACH_S = 1.0
_LOADED = """
SELECT coalesce(sum(upper(offsets) - lower(offsets)), 0)::bigint
FROM tideline.coverage JOIN tideline.stream USING (stream_id) WHERE pipeline = %s"""


class Sampler(threading.Thread):
    """A thread that samples until it is stopped.

    Args:
        url: The database; the number of loaded offsets is read from its ledger.
        pipeline: The pipeline with the backlog.
        backlog: Offsets in the backlog.
        job: Returns the write task that runs now.
    """

    def __init__(self, url: str, pipeline: str, backlog: int, job: Callable[[], Job | None]) -> None:
        super().__init__(name="sampler")
        self.peaks: list[dict[str, float]] = [{} for _ in range(TENTHS)]
        """MB of the JVM, the driver, the workers, and all together, per tenth."""
        self._witness = Witness(url)
        self._pipeline = pipeline
        self._backlog = backlog
        self._job = job
        self._stopped = threading.Event()

    def run(self) -> None:
        """Take a sample once a second."""
        while not self._stopped.wait(_EACH_S):
            job = self._job()
            if job is None or not job.alive():
                continue
            now = memory_mb(job)
            [(loaded,)] = self._witness.rows(_LOADED, self._pipeline)
            peak = self.peaks[min(TENTHS - 1, loaded * TENTHS // self._backlog)]
            for part, used in now.items():
                peak[part] = max(peak.get(part, 0.0), used)
        self._witness.close()

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()
        self.join()


def memory_mb(job: Job) -> dict[str, float]:
    """Return the MB of each kind of process of a write task. PSS counts pages that several processes share once."""
    driver = job.driver
    parts = {"JVM": [job.jvm], "driver": [driver] if driver else [], "workers": job.workers}
    used = {part: sum(map(_pss_mb, processes)) for part, processes in parts.items()}
    return used | {"all": sum(used.values())}


def _pss_mb(process: psutil.Process) -> float:
    try:
        return process.memory_full_info().pss / 1e6
    except psutil.Error:
        return 0.0
