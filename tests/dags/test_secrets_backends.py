"""Secrets from Airflow's own lookup, with a real backend of Airflow, and what Airflow's logs show of them."""

import json

import pytest
from airflow.sdk.configuration import clear_secrets_backends_cache
from airflow.sdk.log import redact

from tideline import environment, settings
from tideline.airflow import secrets_backends
from tideline.errors import RetryableError


@pytest.fixture
def variables(tmp_path, monkeypatch):
    """Configure Airflow's backend that reads files; return the file of the Variables."""
    file = tmp_path / "variables.json"
    file.write_text("{}")
    monkeypatch.setenv("AIRFLOW__SECRETS__BACKEND", "airflow.secrets.local_filesystem.LocalFilesystemBackend")
    monkeypatch.setenv("AIRFLOW__SECRETS__BACKEND_KWARGS", json.dumps({"variables_file_path": str(file)}))
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "server")
    monkeypatch.setattr(environment, "_airflow", environment._Airflow())
    monkeypatch.setattr(secrets_backends, "_found", {})
    monkeypatch.delenv("TIDELINE_LEDGER_URL", raising=False)
    clear_secrets_backends_cache()
    yield file
    clear_secrets_backends_cache()


def test_a_variable_of_a_secrets_backend_is_found_and_kept_out_of_logs(variables):
    variables.write_text(
        json.dumps({"TIDELINE_LEDGER_URL": "postgresql://me:QXZ%25JV7@db/w", "TEST_NUMBER": 7_654_321})
    )
    secrets_backends.use()
    assert settings.ledger_url() == "postgresql://me:QXZ%25JV7@db/w"
    assert environment.secret("TEST_NUMBER", "a number") == "7654321"
    shown = str(redact("at postgresql://me:QXZ%25JV7@db/w with QXZ%25JV7, QXZ%JV7 and 7654321"))
    assert shown == "at *** with ***, *** and ***"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("host=db user=me password=QXZJV8 dbname=w", "QXZJV8"),
        (r"host=db password = 'QX ZJ\'V8' dbname=w", r"QX ZJ\'V8"),
        ("postgresql:///w?host=/run/postgres", None),
        ("http://[not an address", None),
    ],
)
def test_the_password_of_an_address_in_any_form_is_kept_out_of_logs(variables, address, shown):
    secrets_backends.use()
    secrets_backends._mask(address)
    if shown:
        assert redact(f"login with {shown}") == "login with ***"


def test_a_backend_without_the_secret_may_be_one_that_is_down(variables, monkeypatch):
    secrets_backends.use()
    with pytest.raises(RetryableError, match="TIDELINE_LEDGER_URL is not set"):
        settings.ledger_url()
    variables.write_text(json.dumps({"TIDELINE_LEDGER_URL": "postgresql://db/w"}))
    monkeypatch.setattr(secrets_backends, "_KEPT_SECONDS", 0.0)
    assert settings.ledger_url() == "postgresql://db/w"
