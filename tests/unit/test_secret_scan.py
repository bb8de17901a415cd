"""The search for secrets finds one in each place and each form, and every secret of the tests can be found by it."""

import ast
import base64
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import quote

import jwt
import pytest

import secret_scan
from secret_scan import MEANT_TO_HOLD_ONE, ProcessWatch, Scan
from tideline.declaration.sections import has_password, may_be_secret
from tideline.deployment import secret
from tideline.settings import PROJECT
from tideline_stack.airflow_processes import fernet_key

MARK = "PLANTED".capitalize() + "Mark"
"""Another mark than that of real secrets: the suite's own search must not find what is planted here."""
PLANTED = f'{MARK}p%"a\\s\ns é{MARK}'
SCAN = Scan((MARK,))


FORMS = [
    PLANTED,
    f"postgresql://me:{quote(PLANTED)}@db/w",
    json.dumps({"password": PLANTED}),
    json.dumps(json.dumps([PLANTED])),
    repr(PLANTED),
    repr(PLANTED.encode()),
    PLANTED.encode().hex(),
    PLANTED.encode().hex().upper(),
    PLANTED.encode("utf-16-le").decode("latin-1"),
    *(base64.b64encode(b"x" * before + PLANTED.encode()).decode() for before in range(4)),
    *(base64.urlsafe_b64encode(b"?" * before + PLANTED.encode()).decode() for before in range(4)),
    f"the password is {PLANTED[: len(MARK)]}",
    f"a shortened one: ...{PLANTED[-len(MARK) :]}",
]


@pytest.mark.parametrize("text", FORMS, ids=[f"form-{n}" for n in range(len(FORMS))])
def test_a_secret_is_found_in_every_form_that_it_may_have(tmp_path, text):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "task.log").write_bytes(b"before\n" + text.encode("latin-1") + b"\nafter")
    (tmp_path / "other.log").write_text("nothing here")
    (tmp_path / "empty.log").touch()
    (found,) = SCAN.files(tmp_path)
    assert found.startswith("file a/task.log: ")
    assert "before" in found
    assert MARK not in found


def test_what_a_test_logs_on_purpose_hides_no_other_secret(tmp_path):
    on_purpose = f"[info ] notifying with {PLANTED!r} [recording_notifier]\n"
    (tmp_path / "scheduler.log").write_text(on_purpose)
    assert list(SCAN.files(tmp_path)) == []
    (tmp_path / "scheduler.log").write_text(f"{on_purpose}password={PLANTED}\n")
    assert list(SCAN.files(tmp_path)) != []


def test_keys_and_tokens_are_found_without_a_mark():
    assert Scan().finds(b"ssl.keystore.key=-----BEGIN PRIVATE KEY-----\\nMIGH...")
    assert Scan().finds(b"-----BEGIN ENCRYPTED PRIVATE KEY-----")
    assert Scan().finds(f"Bearer {jwt.encode({'sub': 'me'}, 'x' * 64, algorithm='HS512')}".encode())


def test_a_secret_without_a_mark_is_found_once_it_is_known(tmp_path, monkeypatch):
    monkeypatch.setattr(secret_scan, "_WITHOUT_MARK", {})
    key = fernet_key(tmp_path)
    shown = [form(f"key: {key}") for form in (str.encode, lambda text: text.encode().hex().encode())]
    assert [Scan().finds(text) for text in shown] == [False, False]
    secret_scan.look_for(key)
    assert [Scan().finds(text) for text in shown] == [True, True]
    (tmp_path / "airflow.log").write_bytes(shown[0])
    assert list(Scan().files(tmp_path)) == ["file airflow.log: 'key: '"]


def test_a_watch_that_dies_is_not_taken_for_one_that_found_nothing(monkeypatch):
    with ProcessWatch(SCAN) as watch:
        pass
    assert (watch.has_looked, watch.looks > 0) == (True, True)
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    monkeypatch.setattr(secret_scan, "_command_lines", lambda pids: 1 / 0)
    with ProcessWatch(SCAN) as watch:
        pass
    assert not watch.has_looked


@pytest.mark.parametrize("name", [name.replace("*", "a") for name in MEANT_TO_HOLD_ONE])
def test_a_file_that_is_meant_to_hold_one_is_found_where_others_may_read_it(tmp_path, name):
    secret.write(tmp_path / name, PLANTED)
    assert list(SCAN.files(tmp_path)) == []
    (tmp_path / name).chmod(0o640)
    assert list(SCAN.files(tmp_path)) == [f"file {name}, which others may read: ''"]


@pytest.mark.parametrize("looks_a_second", [1, 10**9])
def test_a_secret_on_a_command_line_is_found_by_each_look_at_all_processes_and_by_those_in_between(
    monkeypatch, looks_a_second
):
    monkeypatch.setattr(secret_scan, "_LOOKS_A_SECOND", looks_a_second)
    program = "import sys; print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", program, f"--password={PLANTED}"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with ProcessWatch(SCAN) as watch, subprocess.Popen(command, **pipes) as process:
        process.stdout.readline()
        before = watch.looks
        while watch.looks < before + 2:  # so one look has begun after the process had
            time.sleep(0.05)
        process.communicate()
        process.wait()
    assert [found for found in watch.found if f"process {process.pid}" in found]


def test_generated_secrets_have_the_mark(tmp_path):
    kept = secret.keep(tmp_path / "password")
    assert kept == secret.keep(tmp_path / "password")
    assert kept.startswith(secret.MARK)
    assert kept.endswith(secret.MARK)
    assert kept.isalnum()
    assert len(kept) == 64 + 2 * len(secret.MARK)


NO_SECRETS = (
    "PAGER_TOKEN",  # the name of a variable
    "AKIAEXAMPLE",  # the name of a user
    "airflow.secrets.local_filesystem.LocalFilesystemBackend",
    "a login, or the token",  # a heading of a table
    *("Bearer", "Bearer x", "Basic YWRtaW46YWRtaW4="),  # logins that are refused
)


def unmarked(path: Path) -> list[str]:
    """Return where a literal text is given to something that has the name of a secret, or is an address with a password."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        given: list[tuple[object, ast.expr | None]] = []
        match node:
            case ast.Constant(value=str(text)) if has_password(text):
                found.append(f"{path.relative_to(PROJECT)}:{node.lineno}")
            case ast.Call():
                given += [(keyword.arg, keyword.value) for keyword in node.keywords]
                if len(node.args) == 2 and getattr(node.func, "attr", "") == "setenv":
                    given.append((getattr(node.args[0], "value", None), node.args[1]))
            case ast.Dict():
                given += [
                    (getattr(key, "value", None), value) for key, value in zip(node.keys, node.values, strict=True)
                ]
            case ast.Assign():
                given += [(getattr(target, "id", None), node.value) for target in node.targets]
        found += [
            f"{path.relative_to(PROJECT)}:{value.lineno}"
            for name, value in given
            if isinstance(name, str)
            and may_be_secret(name)
            and isinstance(value, ast.Constant)
            and isinstance(value.value, str)
            and value.value not in NO_SECRETS
        ]
    return found


def test_every_secret_of_a_test_that_runs_programs_has_the_mark():
    """Else the search at the end of its suite would not find it."""
    suites = ("e2e", "faults", "integration", "page")
    files = [path for suite in suites for path in sorted((PROJECT / "tests" / suite).rglob("*.py"))]
    assert [place for path in files for place in unmarked(path)] == []
    assert unmarked(PROJECT / "tests" / "unit" / "test_delta_declaration.py"), "the search for literals finds none"
