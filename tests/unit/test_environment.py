"""A secret, from a variable, from a file or from Airflow. What is wrong is refused, and is never an empty secret."""

import os
import subprocess
import sys

import pytest

from tideline import environment, settings
from tideline.errors import FatalError, RetryableError

NAME, FILE = "TIDELINE_LEDGER_URL", "TIDELINE_LEDGER_URL_FILE"


@pytest.fixture(autouse=True)
def nothing_given(monkeypatch):
    for name in (NAME, FILE, "TIDELINE_METRICS_TOKEN", "TIDELINE_METRICS_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(environment, "_airflow", environment._Airflow())


@pytest.fixture
def file(monkeypatch, tmp_path):
    monkeypatch.setenv(FILE, str(tmp_path / "secret"))
    return tmp_path / "secret"


def test_a_secret_in_a_file_is_read_each_time_without_its_line_break(file):
    for written, secret in (("abc\n", "abc"), ("a b \r\n", "a b "), ("changed", "changed")):
        file.write_text(written)
        assert settings.ledger_url() == secret


@pytest.mark.parametrize("content", [None, b"", b" \n", b"\xff\xfe"], ids=["missing", "empty", "blank", "not-text"])
def test_a_file_without_a_secret_is_refused_and_not_shown(file, content):
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(FatalError, match=f"{FILE}: expected the path of a file that holds the libpq URI") as caught:
        settings.ledger_url()
    assert str(file) not in str(caught.value), "a secret that was put where the path belongs would be shown"


def test_a_variable_and_a_file_at_the_same_time_are_refused(monkeypatch, file):
    file.write_text("abc")
    monkeypatch.setenv(NAME, "abd")
    with pytest.raises(FatalError, match=f"{NAME} and {FILE} are both set"):
        settings.ledger_url()
    monkeypatch.setenv(NAME, "")
    assert settings.ledger_url() == "abc"


def test_a_secret_that_is_nowhere_is_named_with_the_places_for_it(monkeypatch):
    with pytest.raises(FatalError, match=f"{NAME} is not set; it holds") as caught:
        settings.ledger_url()
    assert caught.value.next_step == f"set {NAME}, or set {FILE} to the path of a file that holds it and run again"
    environment.use_airflow(lambda _: None, print, may_be_down=False)
    with pytest.raises(FatalError, match=f"add the Variable {NAME} to Airflow"):
        settings.ledger_url()


def test_a_token_that_is_nowhere_is_no_token(monkeypatch):
    assert settings.metrics_token() is None
    monkeypatch.setenv("TIDELINE_METRICS_TOKEN", "")
    assert settings.metrics_token() is None


def test_airflow_is_asked_only_for_what_is_in_no_variable_and_no_file(monkeypatch, file):
    asked = []
    environment.use_airflow(lambda name: asked.append(name) or "of Airflow", lambda _: None, may_be_down=False)
    file.write_text("of a file")
    assert settings.ledger_url() == "of a file"
    monkeypatch.delenv(FILE)
    assert asked == []
    assert settings.ledger_url() == "of Airflow"
    assert asked == [NAME]


def test_a_secret_that_a_server_may_have_later_is_looked_up_again():
    """A vault that is down looks like one without the secret. The task must be tried again, and not fail for good."""
    environment.use_airflow(lambda _: None, print, may_be_down=True)
    with pytest.raises(RetryableError, match=f"{NAME} is not set"):
        settings.ledger_url()


def test_every_secret_is_masked_wherever_it_comes_from(monkeypatch, file):
    masked = []
    environment.use_airflow(lambda name: f"{name} of Airflow", masked.append, may_be_down=False)
    file.write_text("of a file")
    settings.ledger_url()
    monkeypatch.setenv("TEST_SECRET", "of a variable")
    environment.secret("TEST_SECRET", "a password")
    environment.secret("TEST_USER", "a user", masked=False)
    environment.secret("TEST_KEY", "a key")
    assert masked == ["of a file", "of a variable", "TEST_KEY of Airflow"]


def test_only_what_airflow_keeps_is_handed_to_programs_and_only_to_them(monkeypatch, file):
    file.write_text("of a file")
    monkeypatch.setenv("TEST_SECRET", "of a variable")
    environment.use_airflow(lambda name: f"{name} of Airflow" if name == "TEST_KEY" else None, print, may_be_down=False)
    names = {NAME: "the ledger", "TEST_SECRET": "a password", "TEST_KEY": "a key", "TEST_NONE": "nothing"}
    with environment.handed_to_programs(names):
        program = "import os; print({name: value for name, value in os.environ.items() if name.startswith('TEST_')})"
        shown = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert "'TEST_KEY': 'TEST_KEY of Airflow'" in shown
    assert "'TEST_SECRET': 'of a variable'" in shown
    assert "TEST_NONE" not in shown
    assert "TEST_KEY" not in os.environ
    assert NAME not in os.environ
