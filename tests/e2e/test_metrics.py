"""`/tideline/metrics` in the real web server of Airflow: who may read it, and what it says after a load."""

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

import metrics_token
from system import System

NAME = "impressions"
CONTENT_TYPE = "application/openmetrics-text"


def ask(system: System, **request) -> httpx.Response:
    return httpx.get(f"{system.environment['TIDELINE_AIRFLOW_URL']}/tideline/metrics", timeout=60, **request)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_the_token_opens_the_numbers_of_all_pipelines(system, loaded):
    answer = ask(system, headers=bearer(metrics_token.TOKEN))
    assert (answer.status_code, answer.headers["content-type"].partition(";")[0]) == (200, CONTENT_TYPE)
    samples = [sample for family in text_string_to_metric_families(answer.text) for sample in family.samples]
    found = [(sample.name, sample.value) for sample in samples if sample.labels.get("pipeline") == NAME]
    assert ("tideline_broker_up", 1) in found
    assert {value for name, value in found if name == "tideline_lag_records"} == {0}
    assert {value for name, value in found if name == "tideline_lag_seconds"} == {0}
    assert sum(value for name, value in found if name == "tideline_head_offset") >= len(loaded.raw)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        bearer("no-token"),
        bearer(metrics_token.TOKEN[:-1]),
        {"Authorization": "Bearer"},
        {"Cookie": "_token=no-token"},
        {"Authorization": f"Basic {metrics_token.TOKEN}"},
    ],
    ids=["nothing", "another-token", "part-of-the-token", "empty-token", "a-forged-cookie", "another-scheme"],
)
def test_without_the_token_and_without_a_login_there_are_no_numbers(system, headers):
    answer = ask(system, headers=headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert "tideline_" not in answer.text


@pytest.mark.parametrize("user", ["viewer", "admin"])
def test_a_login_opens_them_as_well_also_a_viewers(system, loaded, user):
    token = metrics_token.login(system, user)
    for request in ({"headers": bearer(token)}, {"cookies": {"_token": token}}):
        answer = ask(system, **request)
        assert answer.status_code == 200
        assert f'tideline_broker_up{{pipeline="{NAME}"}} 1.0' in answer.text


def test_the_numbers_cannot_be_changed(system):
    url = f"{system.environment['TIDELINE_AIRFLOW_URL']}/tideline/metrics"
    assert httpx.post(url, headers=bearer(metrics_token.TOKEN)).status_code == 405
