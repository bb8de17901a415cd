"""Checks of the environment: Python packages, the declared notifiers, and Airflow if it is configured."""

from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version

from tideline.declaration.pipelines import Pipeline
from tideline.domain.checks import Check, bad, ok, warn
from tideline.reports.checks import guarded
from tideline.reports.dag_runs import airflow


def packages() -> Check:
    """Check that pyspark and pyspark-client have equal versions. They share files, so with different versions one breaks the other."""
    found = {name: _version(name) for name in ("pyspark", "pyspark-client")}
    if None in found.values():
        missing = ", ".join(name for name, installed in found.items() if installed is None)
        return ok("packages", "pyspark", f"{missing} is not installed here; both must be installed where tasks run")
    if len(set(found.values())) > 1:
        text = " and ".join(f"{name} {installed}" for name, installed in found.items())
        return bad("packages", "pyspark", f"expected equal versions, found {text}", "install requirements.txt again")
    return ok("packages", "pyspark", f"pyspark and pyspark-client {found['pyspark']}")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def notifier(pipeline: Pipeline) -> Iterable[Check]:
    """Check that the declared notifier can be created here; yield nothing if none is declared. Nothing is sent."""
    if pipeline.notify.notifier is not None:
        yield from guarded(pipeline.name, "notifier", lambda: [_notifier(pipeline)])


def _notifier(pipeline: Pipeline) -> Check:
    from tideline.airflow import notifications  # noqa: PLC0415 - only a pipeline with a notifier needs Airflow here

    notifications.notifier(pipeline.name, pipeline.notify)
    return ok(pipeline.name, "notifier", f"{pipeline.notify.notifier} can be created here; nothing was sent")


def orchestrator(pipelines: Sequence[Pipeline]) -> Iterable[Check]:
    """Check that Airflow answers, and that it has an unpaused DAG for each pipeline, and the declared pools."""
    yield from guarded("airflow", "connection", lambda: _orchestrator(pipelines))


def _orchestrator(pipelines: Sequence[Pipeline]) -> Iterable[Check]:
    with airflow() as session:
        if session is None:
            yield ok("airflow", "connection", "not configured: commands reserve batches, and start no run")
            return
        yield ok("airflow", "connection", f"Airflow {session.version()} answers")
        paused = session.paused()
        pools = {pool: session.has_pool(pool) for pool in {pipeline.pool for pipeline in pipelines} if pool}
    for pipeline in pipelines:
        if pipeline.name not in paused:
            yield bad(
                pipeline.name,
                "dag",
                f"Airflow has no DAG {pipeline.name}",
                "look for import errors in Airflow; check that its DAG processor sees this pipelines folder",
            )
        elif paused[pipeline.name]:
            yield warn(pipeline.name, "dag", "is paused: nothing is scheduled", "unpause it in Airflow")
        else:
            yield ok(pipeline.name, "dag", "is not paused")
        if pipeline.pool:
            yield _pool(pipeline.name, pipeline.pool, exists=pools[pipeline.pool])


def _pool(pipeline: str, pool: str, *, exists: bool) -> Check:
    if exists:
        return ok(pipeline, "pool", f"Airflow has the pool {pool}")
    return bad(
        pipeline,
        "pool",
        f"Airflow has no pool {pool}: the task `write` never starts",
        f"add the pool to Airflow, or correct the key pool: airflow pools set {pool} 4 'Spark jobs'",
    )
