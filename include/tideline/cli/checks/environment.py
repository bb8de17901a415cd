"""What is around the ledger and the pipelines: Python packages, and Airflow where it is configured."""

from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version

from tideline.cli.checks import Check, bad, guarded, ok, warn
from tideline.cli.dag_runs import airflow
from tideline.declaration.pipelines import Pipeline


def packages() -> Check:
    """The two halves of Spark's Python package overlap in their files: of any but equal versions one breaks the other."""
    found = {name: _version(name) for name in ("pyspark", "pyspark-client")}
    if None in found.values():
        missing = ", ".join(name for name, installed in found.items() if installed is None)
        return ok("packages", "pyspark", f"{missing} is not installed here; where tasks run both must be")
    if len(set(found.values())) > 1:
        text = " and ".join(f"{name} {installed}" for name, installed in found.items())
        return bad("packages", "pyspark", f"expected equal versions, found {text}", "install requirements.txt again")
    return ok("packages", "pyspark", f"pyspark and pyspark-client {found['pyspark']}")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def orchestrator(pipelines: Sequence[Pipeline]) -> Iterable[Check]:
    """Whether Airflow answers and would run the pipelines."""
    yield from guarded("airflow", "connection", lambda: _orchestrator(pipelines))


def _orchestrator(pipelines: Sequence[Pipeline]) -> Iterable[Check]:
    with airflow() as session:
        if session is None:
            yield ok("airflow", "connection", "not configured: acts reserve batches, and start nothing")
            return
        yield ok("airflow", "connection", f"Airflow {session.version()} answers")
        paused = session.paused()
    for pipeline in pipelines:
        if pipeline.name not in paused:
            yield bad(
                pipeline.name,
                "dag",
                f"Airflow has no DAG {pipeline.name}",
                "look for import errors in Airflow; does its DAG processor see this pipelines folder?",
            )
        elif paused[pipeline.name]:
            yield warn(pipeline.name, "dag", "is paused: nothing is scheduled", "unpause it in Airflow")
        else:
            yield ok(pipeline.name, "dag", "is on")
