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
    mutants_of: int
    """One in so many mutants is tried; the next commit tries others."""


COMMIT = Share(
    simulation=2_000,
    mirrored=20,
    processes=50,
    jobs=1,
    stack=1,
    failpoint_rounds=1,
    steps_of=2,
    faults_of_a_step=1,
    unknown_commits=20,
    bad_records=1_500,
    parsed_records=4_000,
    mutants_of=5,
)
SOAK = Share(
    simulation=1_000_000,
    mirrored=3_000,
    processes=10_000,
    jobs=300,
    stack=60,
    failpoint_rounds=20,
    steps_of=1,
    faults_of_a_step=6,
    unknown_commits=5_000,
    bad_records=50_000,
    parsed_records=1_000_000,
    mutants_of=1,
)
