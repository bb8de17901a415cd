"""Each process of the running stack logs in to Postgres with the role of its kind, and has no password of the administrator."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from urllib.parse import urlsplit

import httpx
import psutil

import held_tasks
import metrics_token
from operator_acts import command
from system import System, decoded
from tideline.settings import LEDGER_URL, READER_URL, STAGER_URL, WRITER_URL

NAME = "by_role"


def of_airflow(system: System) -> Iterator[psutil.Process]:
    """Yield the components of Airflow, and all that they have started: tasks, JVMs, drivers and their workers."""
    for part, child in system.stack.parts().items():
        if part not in ("Postgres", "Kafka"):
            process = psutil.Process(child.pid)
            yield from (process, *process.children(recursive=True))


def holders(system: System, text: str) -> set[str]:
    """Return the names of variables that have the text in them, in the environment with which any of these processes was started."""
    found = set()
    for process in of_airflow(system):
        with suppress(psutil.Error):  # one that ends meanwhile has no environment, and only root may ask for it
            found |= {name for name, value in process.environ().items() if text in value}
    return found


def test_driver_and_executors_log_in_with_their_own_roles(system):
    sent = system.fill(NAME, 300)
    run_id = system.start(NAME)
    write = held_tasks.writing(system, NAME)
    with held_tasks.amid_staging(system, write) as worker:
        assert held_tasks.users_of(system, write.driver) == {"tideline_writer"}
        assert held_tasks.users_of(system, worker) == {"tideline_stager"}
        urls = {name: url for name, url in write.driver.environ().items() if url.startswith("postgresql://")}
        assert urls == {
            LEDGER_URL: system.environment[WRITER_URL],
            STAGER_URL: system.environment[STAGER_URL],
        }
        of_worker = worker.environ()
        assert holders(system, urlsplit(system.url).password) == set()
    system.succeed(NAME, run_id)
    assert system.output(NAME) == decoded(sent)
    assert [name for name, value in of_worker.items() if "postgresql://" in value] == []
    [(owner,)] = system.rows("SELECT tableowner::text FROM pg_tables WHERE tablename = %s", NAME)
    assert owner == "tideline_writer"


def test_a_task_that_plans_logs_in_as_the_operator(system):
    """The first test of this module has planned once, so there is a row to hold."""
    with held_tasks.plan_of(system, NAME) as (run_id, users):
        assert users == {"tideline_operator"}
    system.succeed(NAME, run_id)


def test_what_looks_logs_in_as_the_reader(system, loaded):
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
