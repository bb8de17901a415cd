"""Real write tasks on real servers while everything they are made of is killed: see `striking` for what and when."""

from faults.jobs.figures import Figures
from faults.jobs.schedule import Schedule


def test_killed_jobs_and_servers_lose_nothing_double_nothing_and_jam_nothing(
    crashing, tmp_path, share, first_seed, tally
):
    total = Figures()
    for seed in range(first_seed, first_seed + share.jobs):
        schedule = Schedule(seed, crashing, tmp_path / f"seed_{seed}")
        try:
            figures = schedule.play()
        except BaseException as error:
            error.add_note(f"{schedule}\nlogs of its jobs: {schedule.folder}\nservers: {crashing.folder}")
            error.add_note(f"again: pytest tests/faults/jobs/test_jobs.py --first-seed {seed}")
            raise
        tally("job", seed=seed, **figures.as_json())
        total.add(figures)
    tally("jobs", **total.as_json())
