"""Time from the trigger to the end of a run, in a real Airflow."""

import statistics
from datetime import datetime

import records
from benchmarks import rivals
from benchmarks.scene import PARTITIONS, ROUNDS, Scene, say, table
from tideline_stack.airflow_user import AirflowUser

TITLE = "From the trigger to the end of the run, through Airflow"


def measure(scene: Scene) -> list[str]:
    """Return the section's lines."""
    stack = scene.stack
    topic = records.create(stack.broker.bootstrap, partitions=PARTITIONS)
    rivals.declare(scene.folder / "pipelines" / "latency", topic)
    assert stack.orchestrator is not None
    api = AirflowUser(stack.orchestrator.base_url, stack.orchestrator.username, stack.orchestrator.password)
    api.unpause("latency")
    found: dict[str, list[float]] = {"10,000 records": [], "nothing to do": []}
    for number in range(ROUNDS):
        rivals.fill(stack.broker.bootstrap, topic, 10_000, PARTITIONS)
        for what, seconds in found.items():
            run_id = api.trigger("latency")
            state = api.finished("latency", run_id)
            assert state == "success", f"{what}: the run ended as {state}"
            # By Airflow's own times: it is asked once a second whether a run has ended.
            run = api.run("latency", run_id)
            queued, ended = (datetime.fromisoformat(run[name]) for name in ("queued_at", "end_date"))
            seconds.append((ended - queued).total_seconds())
            say(f"round {number + 1}, {what}: {seconds[-1]:.1f} s")
    rows = [(what, f"{min(seconds):.1f}", f"{statistics.median(seconds):.1f}") for what, seconds in found.items()]
    return table(("what", "best, s", "median, s"), rows)
