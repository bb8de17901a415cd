"""The task `write` has a button that leads to the page of the batches of its run."""

from urllib.parse import quote

import httpx

from loaded_runs import NAME


def test_the_task_links_to_the_batches_of_its_run(system, loaded):
    run = quote(loaded.run_id, safe="")
    links = system.airflow.call("GET", f"dags/{NAME}/dagRuns/{run}/taskInstances/write/links")["extra_links"]
    url = system.environment["TIDELINE_AIRFLOW_URL"]
    assert links["Batches"] == f"{url}/tideline/runs/{NAME}/{run}"
    login = {
        "username": system.environment["TIDELINE_AIRFLOW_USERNAME"],
        "password": system.environment["TIDELINE_AIRFLOW_PASSWORD"],
    }
    token = httpx.post(f"{url}/auth/token", json=login, trust_env=False).json()["access_token"]
    page = httpx.get(links["Batches"], headers={"Authorization": f"Bearer {token}"}, trust_env=False, timeout=60)
    assert page.status_code == 200
    for batch_id in system.planned(NAME, loaded.run_id):
        assert f'/tideline/pipelines/{NAME}/batches/{batch_id}"' in page.text
