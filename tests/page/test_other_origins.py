"""What a page of another origin can do in the browser of a person who is logged in: nothing.

To a browser, another port of this host is the same site, so it sends the login cookie along. SameSite alone would not help here.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import expect

import doors
from doors import HEADER, WHY

TRAP = """<!doctype html><title>trap</title>
<form id="form" method="post" target="answer"></form><iframe name="answer" id="answer"></iframe>"""
SEND_FORM = """([address, kind, fields]) => new Promise(done => {
  const form = document.getElementById("form");
  form.action = address;
  form.enctype = kind;
  for (const [name, value] of Object.entries(fields)) {
    const input = document.createElement("input");
    input.name = name;
    input.value = value;
    form.append(input);
  }
  document.getElementById("answer").onload = () => done();
  form.submit();
})"""
FETCH = """([address, options]) => fetch(address, {credentials: "include", ...options})
  .then(answer => answer.type + " " + answer.status).catch(error => error.name)"""
FRAME = """address => new Promise(done => {
  const frame = document.createElement("iframe");
  frame.id = "victim";
  frame.onload = () => done();
  frame.src = address;
  document.body.append(frame);
})"""
KINDS = ("application/x-www-form-urlencoded", "multipart/form-data", "text/plain")


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Print no line for each request."""


@contextmanager
def serving(folder) -> Iterator[int]:
    (folder / "trap.html").write_text(TRAP)
    handler = partial(_Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.fixture(scope="module")
def port(tmp_path_factory) -> Iterator[int]:
    with serving(tmp_path_factory.mktemp("trap")) as found:
        yield found


@pytest.fixture
def trap(browser, site, port):
    """Yield a function that opens a page of another origin in the browser of a person who may act."""
    contexts = []

    def opened(host):
        context = browser.new_context(locale="en-US")
        contexts.append(context)
        cookie = {"name": "_token", "value": site.token("admin"), "url": site.url}
        context.add_cookies([{**cookie, "httpOnly": True, "sameSite": "Lax"}])  # as Airflow sets it
        page = context.new_page()
        page.goto(f"http://{host}:{port}/trap.html")
        return page

    yield opened
    for context in contexts:
        context.close()


def acts(site):
    """Return the addresses and forms of acts that the ledger would carry out, as in the table of the doors."""
    found = [door for door in doors.doors(site) if door.method == "POST" and not door.route.endswith(("run", "checks"))]
    assert len(found) == 9
    return [(f"{site.url}/tideline{door.path}", {**door.form, "reason": WHY}) for door in found]


@pytest.mark.parametrize(("host", "code", "where"), [("127.0.0.1", 403, "same-site"), ("localhost", 401, "cross-site")])
def test_a_form_of_another_origin_changes_nothing(site, trap, host, code, where):
    page = trap(host)
    before = site.everything()
    answers = []
    page.on("response", lambda answer: answers.append(answer) if answer.request.method == "POST" else None)
    for address, form in acts(site):
        for kind in KINDS if "/skip" in address else KINDS[:1]:
            page.goto(page.url)
            page.evaluate(SEND_FORM, [address, kind, form])
    assert [answer.status for answer in answers] == [code] * 11  # 401: the browser has kept the cookie back
    assert {answer.request.all_headers()["sec-fetch-site"] for answer in answers} == {where}
    assert site.everything() == before


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_script_of_another_origin_changes_nothing_and_reads_nothing(site, trap, host):
    page = trap(host)
    before = site.everything()
    body = {"method": "POST", "headers": {"Content-Type": KINDS[0]}}
    for address, form in acts(site):
        data = "&".join(f"{name}={value}" for name, value in form.items())
        # With the header the browser asks first, and is not allowed. Without it the request arrives, and is refused.
        asked = {**body, "headers": {**body["headers"], **HEADER}, "body": data}
        assert page.evaluate(FETCH, [address, asked]) == "TypeError"
        assert page.evaluate(FETCH, [address, {**body, "mode": "no-cors", "body": data}]) in ("TypeError", "opaque 0")
    for path in ("/tideline/", "/tideline/pipelines/clicks/rejects", "/tideline/static/page.js"):
        assert page.evaluate(FETCH, [site.url + path, {}]) == "TypeError"
    assert site.everything() == before


@pytest.mark.parametrize("door", ["skip", "checks"])
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Sec-Fetch-Site": "same-origin"},
        HEADER | {"Sec-Fetch-Site": "same-site"},
        HEADER | {"Sec-Fetch-Site": "cross-site"},
        HEADER | {"Sec-Fetch-Site": "none"},
    ],
)
def test_what_does_not_come_from_the_page_is_refused(site, door, headers):
    """Also with the header, as when the settings of Airflow let another origin send it."""
    paths = {"skip": "decisions/skip", "checks": "checks"}
    before = site.everything()
    with site.client("admin") as client:
        form = {"range": f"{site.prefix}clicks/1 [131, 132)", "reason": WHY}
        answer = client.post(f"/tideline/pipelines/clicks/{paths[door]}", data=form, headers=headers)
    assert answer.status_code == 403
    assert "a request that changes something" in answer.text
    assert site.everything() == before


def test_no_other_origin_can_frame_the_page(site, trap):
    page = trap("127.0.0.1")
    page.evaluate(FRAME, f"{site.url}/tideline/pipelines/clicks/decisions/skip?range=clicks/1")
    inner = page.frame_locator("#victim")
    assert inner.locator("form, h1:has-text('Skip')").count() == 0


def test_no_other_origin_can_frame_the_page_in_airflows_frame(site, trap):
    page = trap("127.0.0.1")
    page.evaluate(FRAME, f"{site.url}/plugin/tideline")
    outer = page.frame_locator("#victim")  # Airflow lets itself be framed
    expect(outer.locator("iframe")).to_be_attached(timeout=60_000)
    refused = next(frame for frame in page.frames if frame.parent_frame and frame.parent_frame.parent_frame)
    refused.wait_for_load_state()
    assert refused.get_by_role("heading", name="Pipelines").count() == 0
    # Words of Tideline are not looked for in it: the browser's own error page is a program with many words.
    assert refused.url.startswith("chrome-error:")


def test_the_cookie_of_a_person_who_logs_in(browser, site):
    """As docs/security.md says: the form of Airflow's simple login sets it by a script, which cannot make it HttpOnly."""
    context = browser.new_context(base_url=site.url, locale="en-US")
    page = context.new_page()
    page.goto("/auth/login")
    page.locator("input[name=username]").fill("viewer")
    page.locator("input[name=password]").fill(site.passwords["viewer"])
    page.locator("button[type=submit]").click()
    page.wait_for_url(lambda url: "/auth/login" not in url)
    found = [(one["httpOnly"], one["sameSite"]) for one in context.cookies() if one["name"] == "_token"]
    context.close()
    assert found == [(False, "Lax")]  # it names no SameSite, and Chromium then takes Lax


def test_a_cookie_that_the_server_of_airflow_sets_is_for_no_script_and_for_no_other_site(site):
    """It does so when a token has run out, and with every auth manager that logs in at the server."""
    with site.client(None) as client:
        client.cookies.set("_token", site.token("viewer") + "x")
        answer = client.get("/api/v2/dags")
    cookies = [line.lower() for line in answer.headers.get_list("set-cookie")]
    assert cookies
    assert all(line.startswith("_token=") and "; httponly" in line and "; samesite=lax" in line for line in cookies)


def test_no_answer_sets_a_cookie(site):
    with site.client(None) as client:
        client.cookies.set("_token", site.token("viewer"))
        for door in doors.doors(site):
            if door.method == "GET" and door.route != "/metrics":
                answer = client.get(f"/tideline{door.path}")
                assert answer.status_code == 200 or "/decisions/" in door.path
                assert "set-cookie" not in answer.headers
