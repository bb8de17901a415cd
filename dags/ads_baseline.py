"""Define the DAG `ads_baseline`: once an hour, count the impressions and conversions of each offer, for the pipeline `offer_anomalies`.

It is a job of the ad company, beside its pipelines. Both inputs are tables of the ledger's database, and the output is
some thousand rows: SQL counts them where they are. Spark would read both tables to give the same.

The laws: an hour has one version, also if its run is cleared or two runs meet (`UNIQUE (hour)`). A version is complete,
or not there: it is written in one transaction. It never changes: triggers refuse that. Its files are in
`pipelines/offer_anomalies/baseline`.
"""

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG, CronDataIntervalTimetable, get_current_context, task
from psycopg2.errorcodes import UNDEFINED_TABLE
from psycopg2.sql import SQL

from tideline import settings
from tideline.airflow import secrets_backends
from tideline.airflow.permanent_errors import permanent_errors_fail_at_once
from tideline.errors import FatalError
from tideline.ledger.connection import Ledger
from tideline.ledger.database_errors import RefusedStatementError

PIPELINE = "offer_anomalies"
DAYS_COUNTED = 7
DAYS_KEPT = 30
log = logging.getLogger(__name__)


def compute(ledger: Ledger, hour: datetime) -> str:
    """Compute the version of an hour, unless it is there, and delete old versions, in one transaction. Return what was done.

    Raises:
        FatalError: A table that it reads is missing.
        RetryableError: The database did not answer. Nothing was written.
    """
    try:
        with ledger.transaction():
            return _compute(ledger, hour)
    except RefusedStatementError as error:
        if error.sqlstate != UNDEFINED_TABLE:
            raise
        raise FatalError(
            f"the baseline of {hour:%Y-%m-%dT%H:%MZ}: cannot read the table that it counts: {error.diag.message_primary}",
            next_step="let the pipelines impressions and conversions load once, then clear this task",
            entry="table-cannot-be-read",
        ) from error


def _compute(ledger: Ledger, hour: datetime) -> str:
    ledger.run_sql(_file("lock"), {})
    if not ledger.rows_of(_file("find_view"), {}):
        # Only then: the role of the job needs no right to create tables where they exist.
        ledger.run_sql(_file("create"), {})
    for row in ledger.rows_of(_file("find_version"), {"hour": hour}):
        return f"version {row['version']} of {hour:%Y-%m-%dT%H:%MZ} is there"
    [made] = ledger.rows_of(_file("add_version"), {"hour": hour, "days": DAYS_COUNTED})
    n_offers = ledger.run_sql(_file("count_offers"), dict(made))
    n_pruned = ledger.run_sql(_file("prune"), {"days": DAYS_KEPT})
    return (
        f"version {made['version']} of {hour:%Y-%m-%dT%H:%MZ}: {n_offers:,} offers, from {made['begins_at']:%Y-%m-%dT%H:%M:%SZ} "
        f"to {made['ends_at']:%Y-%m-%dT%H:%M:%SZ}; {n_pruned} old versions deleted"
    )


def _file(verb: str) -> SQL:
    return SQL((settings.pipelines_dir() / PIPELINE / "baseline" / f"{verb}.sql").read_text(encoding="utf-8"))


def _hour(context: Any) -> datetime:
    """Return the full hour at which the run was due. A run that is cleared has the same one again."""
    due = context.get("data_interval_end") or context["dag_run"].run_after
    return datetime.fromisoformat(due.isoformat()).astimezone(UTC).replace(minute=0, second=0, microsecond=0)


with DAG(
    dag_id="ads_baseline",
    description="Count impressions and conversions of each offer, as a new version of ads.baseline",
    doc_md=__doc__,
    # Half an hour after the pipelines that it reads, which start at the full hour.
    schedule=CronDataIntervalTimetable("30 * * * *", timezone="UTC"),
    start_date=datetime(2020, 1, 1, tzinfo=UTC),
    catchup=False,
    tags=["ads"],
    default_args={"retries": 2, "retry_delay": timedelta(minutes=1)},
):

    @task(task_id="compute")
    def compute_baseline() -> str:
        """Compute the version of the run's hour. Return what was done."""
        secrets_backends.use()
        context = get_current_context()
        ti = context["ti"]
        actor = f"{ti.dag_id} {ti.run_id} {ti.task_id} try {ti.try_number}"
        # It writes tables beside those of the pipelines, as their Spark drivers do.
        url, variable = settings.url_of(settings.WRITER_URL)
        with permanent_errors_fail_at_once(), Ledger(url, actor=actor, variable=variable) as ledger:
            done = compute(ledger, _hour(context))
        log.info("ads.baseline: %s", done)
        return done

    compute_baseline()
