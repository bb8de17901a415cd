"""Define how many schedules of each level are played: for each commit, and by night."""

from dataclasses import dataclass


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
    """Processes of the stack that a schedule kills; the next commit kills others."""
    failpoint_rounds: int
    """Repetitions of each combination of a failpoint and a fault."""
    steps_of: int
    """One in so many failpoints is tried; the next commit tries others."""
    faults_of_a_step: int
    """Faults tried at each of these failpoints; the next commit tries others."""
    unknown_commits: int
    bad_records: int
    """Loaded with Spark into Postgres."""
    parsed_records: int
    """Decoded only."""
    delta_races: int
    """Races of two processes for the version of one batch of a Delta table in a folder; a fifth as many in an object store."""
    delta_deaths: int
    """Processes that are killed while they commit to a Delta table: so many for a folder, and as many for an object store."""
    mutants_of: int
    """One in so many mutants is tried; the next commit tries others."""


COMMIT = Share(
    simulation=2_000,
    mirrored=20,
    processes=35,
    jobs=1,
    stack=1,
    victims=5,
    failpoint_rounds=1,
    steps_of=5,
    faults_of_a_step=1,
    unknown_commits=14,
    bad_records=600,
    parsed_records=2_000,
    delta_races=100,
    delta_deaths=3,
    mutants_of=12,
)
SOAK = Share(
    simulation=1_000_000,
    mirrored=3_000,
    processes=10_000,
    jobs=300,
    stack=60,
    victims=13,
    failpoint_rounds=20,
    steps_of=1,
    faults_of_a_step=6,
    unknown_commits=5_000,
    bad_records=50_000,
    parsed_records=1_000_000,
    delta_races=5_000,
    delta_deaths=200,
    mutants_of=1,
)
