"""Every route needs a login and the right to the pipeline's DAG; and a problem says what does not answer."""

import pytest

from hostile import HOSTILE
from website import ROLES

PAGES = (
    "",
    "pipelines/clicks",
    "pipelines/clicks/lag",
    "pipelines/clicks/coverage",
    "pipelines/clicks/throughput",
    "pipelines/clicks/open",
    "pipelines/clicks/decisions",
    "pipelines/clicks/batches",
    "pipelines/clicks/reasons",
    "pipelines/clicks/rejects",
    "pipelines/clicks/partitions/1",
    "pipelines/clicks/batches/1",
    "runs/clicks/manual__first",
    "static/page.css",
    "static/page.js",
)


@pytest.mark.parametrize("path", PAGES)
def test_without_a_login_nothing_is_shown(site, path):
    with site.client(None) as client:
        answer = client.get(f"/tideline/{path}")
    assert answer.status_code == 401
    assert "clicks" not in answer.text


@pytest.mark.parametrize("path", PAGES)
def test_with_a_login_every_page_is_shown_with_strict_headers(site, path):
    with site.client("viewer") as client:
        answer = client.get(f"/tideline/{path}")
    assert answer.status_code == 200, answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["x-frame-options"] == "SAMEORIGIN"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert HOSTILE not in answer.text


def test_the_page_of_a_pipeline_says_what_its_records_are_and_where_they_go(site):
    with site.client("viewer") as client:
        assert "values: bytes; output: page.clicks" in client.get("/tideline/pipelines/clicks").text


def test_the_app_publishes_no_description_of_itself(site):
    with site.client(None) as client:
        assert {client.get(f"/tideline/{path}").status_code for path in ("docs", "redoc", "openapi.json")} == {404}


@pytest.mark.parametrize("role", ROLES)
def test_bytes_of_records_are_shown_only_to_those_who_may_edit(site, role):
    with site.client(role) as client:
        shown = client.get("/tideline/pipelines/clicks/rejects").text
    assert "not JSON" in shown
    assert ('<th scope="col">Value</th>' in shown) == (role != "viewer")


def test_an_unknown_pipeline_says_so(site):
    with site.client("admin") as client:
        answer = client.get("/tideline/pipelines/nothing")
    assert answer.status_code == 404
    assert "there is no pipeline of this name" in answer.text


def test_lists_hold_only_pipelines_whose_dag_the_person_may_see(site):
    with site.client("partner") as client:
        shown = client.get("/tideline/").text
        assert ">clicks</a>" in shown
        assert not any(f">{name}</a>" in shown for name in ("orders", "payments", "visits", "far_away"))
        assert "clicks" in client.get("/tideline/runs/clicks/manual__first").text
        assert "no batch that you may see" in client.get("/tideline/runs/orders/manual__first").text
