"""The tasks of the DAGs: they call verbs with the values of a DAG run, and turn errors into retries or failures.

XCom carries only ids, and the address of a page. No secret is on a command line or in a rendered template: tasks and the Spark driver read them
from the environment.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from airflow.sdk import AssetAlias, TriggerRule, get_current_context, task
from airflow.sdk.exceptions import AirflowSkipException

from tideline import flow, settings
from tideline.airflow import assets, notifications, stats, task_log, trigger_form
from tideline.airflow.dags import dag_id_of
from tideline.airflow.permanent_errors import permanent_errors_fail_at_once
from tideline.airflow.spark_submit import write
from tideline.airflow.trigger_form import Asked, Triggered
from tideline.declaration import pipelines
from tideline.declaration.pipelines import Broken, Pipeline
from tideline.domain.requests import Rewind
from tideline.flow import Plan
from tideline.kafka.broker import Broker
from tideline.ledger.connection import Ledger
from tideline.ledger.publications import Announcer
from tideline.ledger.reservations import Run
from tideline.ledger.versions import require_current

log = logging.getLogger(__name__)

# Airflow renders this when a task of the DAG `replay` begins.
_CHOSEN_PIPELINE = "{{ params.pipeline }}"


def ingest(declared: Pipeline | Broken) -> None:
    """Define the tasks of a pipeline's own DAG.

    A broken declaration gets no `announce`: it publishes nothing, and its name may be invalid for an asset.
    """
    outlet = assets.batches(f"{declared.name} batches")
    pool = declared.pool if isinstance(declared, Pipeline) else None
    written = plan(declared.name) >> write(declared.name, pool=pool)
    written >> _advancing(outlet)(declared.name)
    if isinstance(declared, Pipeline):
        written >> _announcing(outlet, [declared])(declared.name)


def replay(declared: Iterable[Pipeline | Broken]) -> None:
    """Define the tasks of the DAG `replay`, for the pipeline that is chosen in its form."""
    outlet = assets.batches(assets.REPLAYED)
    written = plan_replay(_CHOSEN_PIPELINE) >> write(_CHOSEN_PIPELINE)
    written >> _advancing(outlet)(_CHOSEN_PIPELINE)
    written >> _announcing(outlet, declared)(_CHOSEN_PIPELINE)


def upkeep(declared: Pipeline | Broken) -> None:
    """Define the task that cleans up after one pipeline. For a broken declaration it fails, and the other tasks still run."""
    lineage: dict[str, Any] = {}
    if isinstance(declared, Pipeline):
        outlet = assets.batches(f"{declared.name} batches")
        lineage = {"inlets": [assets.output(declared.name)], "outlets": [outlet]}
    notified = notifications.of_upkeep(declared)
    keep_up.override(task_id=dag_id_of(declared.name), **lineage, **notified)(declared.name)


@task(task_id="plan")
def plan(pipeline_name: str) -> list[int]:
    """Reserve the offsets that the run requests and return the batch ids. Skip the run if there is nothing to load."""
    return _plan(pipeline_name, trigger_form.ingest)


@task(task_id="plan")
def plan_replay(pipeline_name: str) -> list[int]:
    """Reserve the offsets to replay and return the batch ids. Skip the run if there is nothing to load."""
    return _plan(pipeline_name, trigger_form.replay)


def _plan(pipeline_name: str, read_form: Callable[[Triggered], Asked]) -> list[int]:
    task_log.begin(pipeline_name)
    with stats.numbers_afterwards(pipeline_name, unless_it_succeeds=True):
        planned = _planned(get_current_context(), pipeline_name, read_form)
        if not planned.batch_ids:
            nothing = "; ".join([f"{pipeline_name}: nothing to load", *planned.notes])
            log.info(nothing)  # Airflow's own log line does not give the reason
            raise AirflowSkipException(nothing)
    stats.planned(pipeline_name, len(planned.batch_ids))
    return planned.batch_ids


def _planned(context: Any, pipeline_name: str, read_form: Callable[[Triggered], Asked]) -> Plan:
    """Reserve what the run requests, and log each batch and why anything is left alone."""
    with stats.timed("plan", pipeline_name), permanent_errors_fail_at_once():
        asked = read_form(_triggered(context))
        pipeline = pipelines.load_named(pipeline_name)
        broker = Broker(pipeline.source)
        with _ledger(context) as ledger:
            if isinstance(asked.request, Rewind):
                planned = _rewound(context, ledger, pipeline, asked.request, asked.reason or "")
            else:
                planned = flow.plan(ledger, broker, pipeline, _run(context), asked.request, reason=asked.reason)
            task_log.about(planned.batch_ids)
            for batch_id, line in zip(planned.batch_ids, flow.describe(ledger, planned.batch_ids), strict=True):
                with task_log.of_batch(batch_id):
                    log.info("%s: %s", pipeline_name, line)
            for note in planned.notes:
                log.info("%s: %s", pipeline_name, note)
    return planned


def _rewound(context: Any, ledger: Ledger, pipeline: Pipeline, wanted: Rewind, reason: str) -> Plan:
    """Go back to the end of a batch. Return the batches that this run loads again; none of a dry run."""
    broker, run = Broker(pipeline.source), _run(context)
    done = flow.rewind(ledger, broker, pipeline, wanted.to_batch, reason=reason, dry_run=wanted.dry_run, run=run)
    if not done.undone:
        return Plan([*done.planned], ["this run has rewound before, and does not do so again"])
    for line in done.describe(dry_run=wanted.dry_run):
        log.info("%s: %s", pipeline.name, line)
    return Plan([], ["a dry run, which has changed nothing"]) if wanted.dry_run else Plan([*done.planned])


def _advancing(outlet: AssetAlias) -> Any:
    """Return the task `advance` of one DAG, with the outlet through which it may start one more run."""
    return advance.override(outlets=[outlet])


def _announcing(outlet: AssetAlias, declared: Iterable[Pipeline | Broken]) -> Any:
    """Return the task `announce` of one DAG. The assets are its inlets, because a task can read only the events of its inlets."""
    inlets = [assets.output(each.name) for each in declared if isinstance(each, Pipeline)]
    return announce.override(inlets=inlets, outlets=[outlet])


@task(task_id="advance")
def advance(pipeline_name: str) -> None:
    """Move the heads over published batches, and fail unless every batch of this run is finished."""
    context = get_current_context()
    task_log.begin(pipeline_name)
    with (
        stats.numbers_afterwards(pipeline_name),
        stats.timed("advance", pipeline_name),
        permanent_errors_fail_at_once(),
        _ledger(context) as ledger,
    ):
        pipeline = pipelines.load_named(pipeline_name)
        planned = context["ti"].xcom_pull(task_ids="plan") or []
        task_log.about(planned)
        flow.check_given(ledger, pipeline_name, _run(context), planned)
        try:
            advanced = flow.advance(ledger, pipeline_name, _run(context))
        finally:  # also if the run fails because of a stopped stream: the other heads have moved
            _show_heads(ledger, pipeline)
        task_log.about(advanced)
        stats.advanced(pipeline_name, len(advanced))
        log.info(
            "%s: heads moved over batches %s",
            pipeline_name,
            ", ".join(map(str, advanced)) or "none: they had moved before",
        )
        if pipeline.wake_on_records and flow.is_behind(ledger, Broker(pipeline.source), pipeline_name):
            assets.wake(context, pipeline_name)
            log.info("%s: there are more records than this run has loaded: requested one more run", pipeline_name)


# Does not depend on `advance`: published batches are announced even if this run or another one failed. `advance` still fails the run.
@task(task_id="announce", trigger_rule=TriggerRule.ALL_DONE)
def announce(pipeline_name: str) -> None:
    """Emit the asset event of each published batch that was not announced yet. Skip the task if there is none."""
    context = get_current_context()
    task_log.begin(pipeline_name)
    with stats.timed("announce", pipeline_name), permanent_errors_fail_at_once(), _ledger(context) as ledger:
        announced = _announce(context, ledger, pipeline_name)
    log.info("%s: asset events for batches %s", pipeline_name, ", ".join(map(str, announced)) or "none")
    if not announced:
        raise AirflowSkipException(f"{pipeline_name}: every batch that is published has been announced")


def _announce(context: Any, ledger: Ledger, pipeline_name: str) -> list[int]:
    pipelines.load_named(pipeline_name)  # raises for a broken declaration, whose asset is not an inlet
    ti = context["ti"]
    announcer = Announcer(dag_id=ti.dag_id, run_id=ti.run_id, task_id=ti.task_id)
    events = assets.Events(context, pipeline_name)
    publications = flow.announce(ledger, pipeline_name, announcer, events)
    announced = [publication.batch_id for publication in publications]
    task_log.about(announced)
    assets.announce(context, pipeline_name, publications)
    stats.published(pipeline_name, publications)
    return announced


@task
def keep_up(pipeline_name: str) -> None:
    """Clean up after one pipeline, announce published batches that no run has announced, and log each change."""
    context = get_current_context()
    task_log.begin(pipeline_name)
    with (
        stats.numbers_afterwards(pipeline_name),
        stats.timed("upkeep", pipeline_name),
        permanent_errors_fail_at_once(),
        _ledger(context) as ledger,
    ):
        done = flow.upkeep(ledger, pipelines.load_named(pipeline_name))
        announced = _announce(context, ledger, pipeline_name)
    stats.kept_up(pipeline_name, len(done))
    if announced:
        done.append(f"{pipeline_name}: asset events for batches {', '.join(map(str, announced))}")
    for line in done or [f"{pipeline_name}: nothing to do"]:
        log.info(line)


def _show_heads(ledger: Ledger, pipeline: Pipeline) -> None:
    try:
        flow.show_heads(ledger, Broker(pipeline.source), pipeline.name)
    except Exception:  # loads do not need the consumer group: it only shows the heads to other tools
        log.warning("%s: the heads are not in its consumer group", pipeline.name, exc_info=True)


def _triggered(context: Any) -> Triggered:
    """Convert the run to plain values. Airflow's timestamps are pendulum's, whose differences cannot be divided by a timedelta."""
    run = context["dag_run"]
    interval = None
    if context.get("data_interval_start") and context.get("data_interval_end"):
        start, end = (datetime.fromisoformat(context[f"data_interval_{edge}"].isoformat()) for edge in ("start", "end"))
        interval = (start, end)
    return Triggered(
        run_type=run.run_type.value, params=dict(context["params"]), conf_keys=run.conf or {}, interval=interval
    )


def _run(context: Any) -> Run:
    return Run(dag_id=context["ti"].dag_id, run_id=context["run_id"])


@contextmanager
def _ledger(context: Any) -> Iterator[Ledger]:
    ti = context["ti"]
    with Ledger(settings.ledger_url(), actor=f"{ti.dag_id} {ti.run_id} {ti.task_id} try {ti.try_number}") as ledger:
        require_current(ledger)
        yield ledger
