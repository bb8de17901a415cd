"""Try mutants side by side, each in a process of its own, which imports its copy of the product."""

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from faults.mutants.mutant import Mutant, grow
from tideline.settings import PROJECT

LIBRARIES = (
    "adbc_driver_postgresql.dbapi", "confluent_kafka.admin", "croniter", "greenlet", "orjson", "psutil", "psycopg2.extras", "psycopg2.sql",
    "pyarrow.compute", "pyarrow.json", "pydantic.main", "pydantic._internal._generate_schema", "pydantic.json_schema",
    "pyspark.sql.datasource", "pytest", "ruamel.yaml", "unittest.mock",
)  # fmt: skip
"""Modules that take most of the import time and are the same for each copy of the product: a process that has imported them is forked."""
AS_IT_IS = "as it is"


class Trials:
    """A pool of processes, each of which plays or tests one copy of the product.

    Args:
        pool: The processes; each does one piece of work.
        folder: For the copies.
    """

    def __init__(self, pool: ProcessPoolExecutor, folder: Path) -> None:
        self._pool = pool
        self._folder = folder

    def submit(self, mutant: Mutant | None, play: Callable[..., Any], *arguments: object) -> Future[Any]:
        """Run `play(copy, *arguments)` with a copy that is a mutant, or the product as it is.

        Raises:
            MisfitError: The mutant does not fit.
        """
        tree = self._folder / (mutant.name if mutant else AS_IT_IS)
        return self._pool.submit(play, tree if tree.exists() else grow(PROJECT, mutant, tree), *arguments)


@contextmanager
def trials(folder: Path, side_by_side: int) -> Iterator[Trials]:
    """Provide the trials; at the end cancel what has not begun."""
    new = multiprocessing.get_context("forkserver")
    new.set_forkserver_preload(list(LIBRARIES))
    with ProcessPoolExecutor(side_by_side, mp_context=new, max_tasks_per_child=1) as pool:
        yield Trials(pool, folder)
        pool.shutdown(cancel_futures=True)
