"""No door is open: every address of the page and every act, for every kind of person, by real requests."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from urllib.parse import urlsplit

import httpx
import psutil
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

import doors
import doors_table
from doors import HEADER, PEOPLE
from given_topics import topics
from hostile import HOSTILE_FOLDER
from website import Website

ODD = (
    "pipelines/orders/",
    "pipelines//orders",
    "pipelines/orders%2f",
    "pipelines/clicks%2f..%2forders",
    "pipelines/clicks/%2e%2e/orders",
    "pipelines/clicks/../orders",
    "pipelines/orders%00",
    "pipelines/orders%20",
    "pipelines/Orders",
    "pipelines/%6frders",
    "pipelines/orders;clicks",
    "pipelines/orders%3Fpipeline=clicks",
    "pipelines/orders?pipeline=clicks&dag_id=clicks",
    "static/..%2fplugin.py",
    "static/%2e%2e/plugin.py",
    "static/README.md",
)
"""Addresses that mean another pipeline, or a file that is not served, to software that reads them carelessly."""


@pytest.fixture(scope="module")
def found(site: Website):
    before = site.everything()
    measured = doors.knock(site)
    assert site.everything() == before, "a refused act, or one without a reason, has changed the ledger"
    return measured


def test_every_address_is_open_to_those_with_the_right_and_to_no_other(site, found):
    every = list(doors.doors(site))
    wanted = {door.name: [doors.expected(door, person) for person in PEOPLE] for door in every}
    assert {door.name: doors.row(door, found) for door in every} == wanted


def test_the_refused_acts_are_acts_that_would_have_been_done(site):
    tried = [door for door in doors.doors(site) if door.route.endswith("/dry-run")]
    with site.client("user") as client:
        answers = {door.route: door.knock(client).text for door in tried}
    assert len(answers) == 9
    assert [route for route, text in answers.items() if "This is what it would do" not in text] == []


def test_the_security_page_shows_what_was_found(site, found):
    assert doors_table.shown() == doors.table(site, found), doors_table.COMMAND


def test_an_answer_that_is_an_error_is_no_open_door(site):
    door = next(door for door in doors.doors(site) if door.route == "/")
    codes = (200, 303, 401, 403, 404, 409, 500)
    answers = [httpx.Response(code, headers={"Location": "/"} if code == 303 else {}) for code in codes]
    found = [doors.cell(door, answer) for answer in answers]
    assert found == [*["allowed"] * 2, "refused (401)", "refused (403)", "error 404", "error 409", "error 500"]


@pytest.mark.parametrize(
    ("table", "path", "role"),
    [("pipeline", "/", "reader"), ("coverage", "/pipelines/clicks/decisions/skip/dry-run", "operator")],
)
def test_the_page_looks_as_the_reader_and_acts_as_the_operator(site, table, path, role):
    """Seen from the sessions that wait: the first for a table that is locked, the second to write to one that may be read."""
    form = {"range": f"{site.prefix}clicks/1 [131, 132)"}
    query = "SELECT usename::text FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))"
    with ThreadPoolExecutor(1) as pool, site.client("op") as client:
        with site.ledger() as holder, holder.transaction():
            mode = "ACCESS EXCLUSIVE" if role == "reader" else "SHARE"
            holder.connection.cursor().execute(f"LOCK TABLE tideline.{table} IN {mode} MODE")
            pid = holder.connection.info.backend_pid
            method, data = ("GET", None) if role == "reader" else ("POST", form)
            asked = pool.submit(client.request, method, f"/tideline{path}", data=data, headers=HEADER)
            topics.until(lambda: site.rows(query, pid))
            users = {user for (user,) in site.rows(query, pid)}
        assert users == {f"page_{role}"}
        assert asked.result().status_code == 200


def test_the_server_of_the_page_has_no_password_of_the_administrator(site):
    password = urlsplit(site.ledger_url).password
    environments = list(_environments(urlsplit(site.url).port))
    assert environments
    assert [name for one in environments for name, value in one.items() if password in value] == []


def _environments(port: int) -> Iterator[dict[str, str]]:
    """Yield the environment of each process of the server. One that ends meanwhile has none, and only root may ask for it."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            environment = process.environ()
            if environment.get("AIRFLOW__API__PORT") == str(port):
                yield environment


def test_a_label_of_any_name_is_one_label(found):
    numbers = found["`GET /metrics`"]["metrics token"].text
    samples = [sample for family in text_string_to_metric_families(numbers) for sample in family.samples]
    valid = {sample.labels["pipeline"]: sample.value for sample in samples if sample.name.endswith("declaration_valid")}
    assert valid[HOSTILE_FOLDER] == 0
    assert valid["clicks"] == 1


@pytest.mark.parametrize("path", ODD)
def test_an_odd_address_opens_nothing(site, path):
    with site.client("partner") as client:
        answer = client.get(f"/tideline/{path}")
    assert answer.status_code in (403, 404)
    assert not any(text in answer.text for text in ("manual__second", "the disk is full", "import"))


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "PUT", "PATCH", "DELETE", "TRACE"])
def test_another_method_opens_nothing(site, method):
    before = site.everything()
    with site.client("admin") as client:
        for door in doors.doors(site):
            answer = client.request(method, f"/tideline{door.path}", headers=HEADER)
            assert answer.status_code == 405, door
            assert "access-control-allow-origin" not in answer.headers
    assert site.everything() == before


def test_a_name_of_no_pipeline_says_nothing_of_the_others(site):
    with site.client("partner") as client:
        answers = [
            client.get("/tideline/pipelines/report"),
            client.get("/tideline/pipelines/report/coverage?ask=true"),
            client.post("/tideline/pipelines/report/checks", headers=HEADER),
            client.post(
                "/tideline/pipelines/report/decisions/skip/dry-run", data={"range": "a/0 [0, 1)"}, headers=HEADER
            ),
        ]
    assert [answer.status_code for answer in answers] == [404] * 4
    assert not any(name in answer.text for answer in answers for name in ("orders", "payments", str(site.folder)))


def test_ids_of_another_pipeline_are_found_nowhere(site):
    ((batch, stream),) = site.rows(
        "SELECT (SELECT min(batch_id) FROM tideline.batch WHERE pipeline = 'orders'),"
        " (SELECT min(stream_id) FROM tideline.stream WHERE pipeline = 'orders')"
    )
    with site.client("partner") as client:
        assert client.get(f"/tideline/pipelines/clicks/batches/{batch}").status_code == 404
        assert client.get(f"/tideline/pipelines/clicks/partitions/{stream}").status_code == 404
        rejects = client.get("/tideline/pipelines/clicks/rejects", params={"batch": batch}).text
        assert "No rejected record fits" in rejects
        for act, form in {
            "replay": {"batch": batch},
            "redrive": {"batch": batch},
            "retry": {"batch": batch},
            "abandon": {"batch": batch, "force": "yes"},
            "rewind": {"to_batch": batch},
            "replay ": {"ranges": f"{site.prefix}orders/0 [0, 5)"},
            "skip": {"range": f"{site.prefix}orders/0 [50, 51)"},
            "accept-partitions": {"topic": f"{site.prefix}orders"},
            "adopt-topic": {"topic": f"{site.prefix}orders"},
            "accept-loss": {"topic": f"{site.prefix}orders"},
        }.items():
            path = f"/tideline/pipelines/clicks/decisions/{act.strip()}/dry-run"
            answer = client.post(path, data=form, headers=HEADER)
            assert "This is what it would do" not in answer.text, act


def test_numbers_are_those_of_the_pipelines_that_the_reader_may_see(site, found):
    numbers = {heading: answer.text for heading, answer in found["`GET /metrics`"].items() if answer is not None}
    assert 'pipeline="clicks"' in numbers["one DAG: this one"]
    assert 'pipeline="orders"' in numbers["viewer"]
    others = ("orders", "payments", "grown", "moved", "visits")
    assert not any(f'pipeline="{name}"' in numbers["one DAG: this one"] for name in others)
    assert f'topic="{site.prefix}orders"' not in numbers["one DAG: this one"]
    assert 'pipeline="orders"' in numbers["metrics token"]


def test_a_login_that_is_not_of_airflow_is_refused(site):
    with site.client(None) as client:
        for headers in (
            {"Authorization": f"Bearer {site.token('admin')}x"},
            {"Authorization": "Bearer x"},
            {"Authorization": "Basic YWRtaW46YWRtaW4="},
            {"Cookie": "_token="},
            {"Cookie": "_token=eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiJ9."},
        ):
            answer = client.get("/tideline/", headers=headers)
            assert answer.status_code in (401, 403), headers
            assert "clicks" not in answer.text


def test_a_long_form_is_refused_before_it_is_read(site):
    before = site.everything()
    with site.client("op") as client:
        sent = iter([b"reason=x&range="] + [b"a" * 10_000] * 5)
        answer = client.post("/tideline/pipelines/clicks/decisions/skip", content=sent, headers=HEADER)
    assert answer.status_code == 413
    assert site.everything() == before
