"""How much of each level is run: on every commit, or by night."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Numbers of schedules, but where another unit is named."""

    simulation: int
    mirrored: int
    """Of the simulation, those that a real ledger watches."""
    processes: int
    jobs: int
    stack: int
    failpoint_rounds: int
    """Times that each failpoint meets each of its faults."""
    faults_of_a_step: int
    """With which each failpoint is met: others on the next commit."""
    unknown_commits: int
    bad_records: int
    """Through Spark into Postgres."""
    parsed_records: int
    """Only decoded."""
    mutants_of: int
    """One mutant of so many is tried: others on the next commit."""


COMMIT = Share(
    simulation=2_000,
    mirrored=20,
    processes=50,
    jobs=1,
    stack=1,
    failpoint_rounds=1,
    faults_of_a_step=1,
    unknown_commits=20,
    bad_records=1_500,
    parsed_records=4_000,
    mutants_of=3,
)
SOAK = Share(
    simulation=1_000_000,
    mirrored=3_000,
    processes=10_000,
    jobs=300,
    stack=60,
    failpoint_rounds=20,
    faults_of_a_step=6,
    unknown_commits=5_000,
    bad_records=50_000,
    parsed_records=1_000_000,
    mutants_of=1,
)
