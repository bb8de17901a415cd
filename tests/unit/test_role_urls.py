"""Which URL of the ledger each kind of process gets."""

import os
import subprocess
import sys

import pytest

from tideline import settings

OPERATOR, WRITER, STAGER, READER = (f"postgresql://{user}:hush@db/w" for user in ("op", "wr", "st", "rd"))


@pytest.fixture
def given(monkeypatch):
    """Set the variables by their short names, and no other."""

    def give(**urls):
        for name in ("LEDGER", "WRITER", "STAGER", "READER"):
            monkeypatch.delenv(f"TIDELINE_{name}_URL", raising=False)
        for name, url in urls.items():
            monkeypatch.setenv(f"TIDELINE_{name.upper()}_URL", url)

    return give


def seen_by_a_child() -> list[str]:
    show = (
        "import os; print(*sorted(f'{k} {v}' for k, v in os.environ.items() if k.startswith('TIDELINE_')), sep=chr(10))"
    )
    done = subprocess.run([sys.executable, "-c", show], check=True, capture_output=True, text=True)
    return done.stdout.split("\n")[:-1] if done.stdout.strip() else []


def test_a_driver_gets_its_own_url_as_that_of_the_ledger_and_no_others(given):
    given(ledger=OPERATOR, writer=WRITER, stager=STAGER, reader=READER)
    with settings.as_driver():
        assert seen_by_a_child() == [f"TIDELINE_LEDGER_URL {WRITER}", f"TIDELINE_STAGER_URL {STAGER}"]
        assert settings.ledger_url() == WRITER
        assert settings.stager_url() == STAGER
    assert (settings.ledger_url(), os.environ["TIDELINE_READER_URL"]) == (OPERATOR, READER)


def test_the_environment_is_as_before_when_the_driver_fails(given):
    given(ledger=OPERATOR, writer=WRITER)
    with pytest.raises(ZeroDivisionError), settings.as_driver():
        raise ZeroDivisionError
    assert settings.ledger_url() == OPERATOR
    assert os.environ["TIDELINE_WRITER_URL"] == WRITER


def test_one_url_is_enough(given):
    given(ledger=OPERATOR)
    assert settings.url_of(settings.READER_URL) == (OPERATOR, "TIDELINE_LEDGER_URL")
    with settings.as_driver():
        assert settings.ledger_url() == settings.stager_url() == OPERATOR
    assert set(settings.variables_by_duty().values()) == {"TIDELINE_LEDGER_URL"}


def test_executors_without_a_role_of_their_own_have_that_of_their_driver(given):
    given(ledger=OPERATOR, writer=WRITER)
    with settings.as_driver():
        assert settings.stager_url() == WRITER
    assert settings.variables_by_duty() == {
        "operator": "TIDELINE_LEDGER_URL",
        "writer": "TIDELINE_WRITER_URL",
        "stager": "TIDELINE_WRITER_URL",
        "reader": "TIDELINE_LEDGER_URL",
    }


def test_executors_forget_every_url(given):
    given(ledger=OPERATOR, writer=WRITER, stager=STAGER, reader=READER)
    settings.forget_urls()
    assert seen_by_a_child() == []
