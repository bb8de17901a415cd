"""Each process of the running stack logs in to Postgres with the role of its kind, and has no password of the administrator."""

from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import httpx

import held_tasks
import metrics_token
from killed_run import NAME
from operator_acts import command
from tideline.settings import LEDGER_URL, READER_URL, STAGER_URL, WRITER_URL


def test_driver_and_executors_log_in_with_their_own_roles(system, killed):
    seen = killed.seen
    assert seen.driver_users == {"tideline_writer"}
    assert seen.worker_users == {"tideline_stager"}
    urls = {name: url for name, url in seen.driver_environment.items() if url.startswith("postgresql://")}
    assert urls == {
        LEDGER_URL: system.environment[WRITER_URL],
        STAGER_URL: system.environment[STAGER_URL],
    }
    assert [name for name, value in seen.worker_environment.items() if "postgresql://" in value] == []
    [(owner,)] = system.rows("SELECT tableowner::text FROM pg_tables WHERE tablename = %s", NAME)
    assert owner == "tideline_writer"


def test_no_process_of_a_load_has_the_password_of_the_administrator(killed):
    assert killed.seen.holders == set()


def test_a_task_that_plans_logs_in_as_the_operator(system, killed):
    """An earlier run has planned, so there is a row to hold."""
    with held_tasks.plan_of(system, NAME) as (run_id, users):
        assert users == {"tideline_operator"}
    system.succeed(NAME, run_id)


def test_what_looks_logs_in_as_the_reader(system, killed):
    def scrape() -> int:
        url = f"{system.environment['TIDELINE_AIRFLOW_URL']}/tideline/metrics"
        return httpx.get(
            url, headers={"Authorization": f"Bearer {metrics_token.TOKEN}"}, timeout=120, trust_env=False
        ).status_code

    for look in (scrape, lambda: command(system, "tideline", "batches", NAME)):
        with ThreadPoolExecutor(1) as pool:
            with held_tasks.before_looks(system) as waiter:
                asked = pool.submit(look)
                assert held_tasks.users_of(system, waiter()) == {"tideline_reader"}
            asked.result()


def test_the_roles_are_those_of_the_environment_and_none_is_the_administrator(system):
    users = [urlsplit(system.environment[name]).username for name in (LEDGER_URL, WRITER_URL, STAGER_URL, READER_URL)]
    assert users == ["tideline_operator", "tideline_writer", "tideline_stager", "tideline_reader"]
    supers = [name for (name,) in system.rows("SELECT rolname::text FROM pg_roles WHERE rolsuper")]
    assert supers == ["postgres"]
    assert urlsplit(system.environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"]).username == "airflow"
