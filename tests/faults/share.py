"""Define which schedules of each level are played: for each commit the same, and by night new ones.

A commit answers the same twice, so a red run is about the change. New schedules are for `make explore` and `make soak`.
"""

import time
from dataclasses import dataclass

FIRST_SEED = 5824
"""Seed of the first schedule of each level that a commit plays. Chosen for its schedules that are few: of the job (Spark folds a state, while a
broker, a driver and Postgres are killed) and of the stack (Postgres, Kafka, the scheduler, a JVM before it publishes, and the runner of
a write that stages are killed; one of the outputs is a topic)."""
_SEEDS = 100_000_000
"""New first seeds are below it: names of topics and tables contain them."""


def new_first_seed() -> int:
    """Return the seed of a first schedule that was not played before."""
    return int(time.time()) % _SEEDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Numbers of schedules, unless another unit is given."""

    simulation: int
    mirrored: int
    """Of the simulation: schedules whose statements are also run against a real ledger, to compare."""
    processes: int
    jobs: int
    stack: int
    victims: int
    """Processes of the stack that a schedule kills."""
    failpoint_rounds: int
    """Repetitions of each combination of a failpoint and a fault."""
    unknown_commits: int
    bad_records: int
    """Loaded with Spark into Postgres."""
    parsed_records: int
    """Decoded only."""
    delta_races: int
    """Races of two processes for the version of one batch of a Delta table in a folder; a fifth as many in an object store."""
    delta_deaths: int
    """Processes that are killed while they commit to a Delta table: so many for a folder, and as many for an object store."""


COMMIT = Share(
    simulation=800,
    mirrored=8,
    processes=12,
    jobs=1,
    stack=1,
    victims=5,
    failpoint_rounds=1,
    unknown_commits=8,
    bad_records=300,
    parsed_records=1_000,
    delta_races=20,
    delta_deaths=3,
)
SOAK = Share(
    simulation=1_000_000,
    mirrored=3_000,
    processes=10_000,
    jobs=300,
    stack=60,
    victims=13,
    failpoint_rounds=20,
    unknown_commits=5_000,
    bad_records=50_000,
    parsed_records=1_000_000,
    delta_races=5_000,
    delta_deaths=200,
)
