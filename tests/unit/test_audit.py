"""`make audit` asks about every pinned package, and fails if one is vulnerable or cannot be asked about.

The list of vulnerabilities is a server of the test, which speaks the protocol of OSV: the real one changes from day to day.
"""

import json
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from packaging.utils import canonicalize_name

from tideline.settings import PROJECT

PINNED = {
    canonicalize_name(line.partition("==")[0])
    for line in (PROJECT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    if line[:1].isalnum()
}
VULNERABLE = {
    "id": "PYSEC-2026-1",
    "summary": "Bad",
    "details": "Bad",
    "published": "2026-01-01T00:00:00Z",
    "modified": "2026-01-01T00:00:00Z",
    "affected": [
        {
            "package": {"name": "psycopg2-binary", "ecosystem": "PyPI"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "99"}]}],
            "versions": ["2.9.13"],
        }
    ],
}


@contextmanager
def osv(known) -> Iterator[tuple[str, set[str]]]:
    """Serve vulnerabilities by package; None is no answer. Yield the address, and the packages that were asked about."""
    asked = set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            name = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["package"]["name"]
            asked.add(canonicalize_name(name))
            found = known.get(name, [])
            body = json.dumps({"vulns": found} if found else {}).encode()
            self.send_response(200 if found is not None else 500)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1/query", asked
        server.shutdown()


def audit(url: str) -> subprocess.CompletedProcess[str]:
    command = ["make", "audit", f"ARGS=-s osv --osv-url {url}"]
    return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False, timeout=180)


def test_every_pinned_package_is_looked_up():
    with osv({}) as (url, asked):
        done = audit(url)
    assert done.returncode == 0, done.stderr
    assert asked == PINNED


@pytest.mark.parametrize(
    ("answer", "said"), [([VULNERABLE], "PYSEC-2026-1"), (None, "500")], ids=["vulnerable", "no-answer"]
)
def test_a_vulnerable_package_fails_the_command_and_so_does_a_missing_answer(answer, said):
    with osv({"psycopg2-binary": answer}) as (url, _):
        done = audit(url)
    assert done.returncode != 0
    assert said in done.stdout + done.stderr


def test_the_security_page_names_the_scripts_that_no_audit_looks_up_with_their_versions():
    folder = PROJECT / "include" / "tideline" / "web" / "static"
    pinned = re.findall(
        r"^\| `.*` \| (\S+) \| (\S+) \|$", (folder / "README.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    page = (PROJECT / "docs" / "security.md").read_text(encoding="utf-8")
    assert len(pinned) == len(list(folder.glob("LICENSE.*")))
    for package, version in pinned:
        assert re.search(rf"^\| `{re.escape(package)}`, .* \| {re.escape(version)} \|", page, re.MULTILINE), package
