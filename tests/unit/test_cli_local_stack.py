"""The command line on the local stack: it works without a variable."""

import os

import pytest

from tideline import settings
from tideline.cli.entry import _use_local_stack
from tideline.deployment.local_stack import Identity, StackState

PLACES = {"TIDELINE_LEDGER_URL": "postgresql://127.0.0.1:1/warehouse", "TIDELINE_KAFKA": "127.0.0.1:2"}


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A checkout's folder of its running stack, and an environment without a variable of Tideline."""
    monkeypatch.setattr(settings, "PROJECT", tmp_path)
    monkeypatch.setattr(os, "environ", {name: value for name, value in os.environ.items() if "TIDELINE" not in name})
    monkeypatch.setattr("sys.argv", ["tideline", "pipelines"])
    return tmp_path / ".local" / "run"


def stack(run, *, ready=True, pid=None):
    state = StackState(supervisor=Identity.of(pid or os.getpid()), ready=ready, environment=PLACES if ready else {})
    state.write(run)


def places():
    return {name: value for name, value in os.environ.items() if name.startswith("TIDELINE_")}


def test_the_running_stack_is_used_and_named_where_no_variable_is_set(run, capsys):
    stack(run)
    _use_local_stack()
    assert places() == PLACES
    said = capsys.readouterr()
    assert (said.out, str(run.parent) in said.err) == ("", True)


def test_one_variable_that_is_set_means_another_deployment(run, monkeypatch, capsys):
    stack(run)
    monkeypatch.setitem(os.environ, "TIDELINE_ACTOR", "ada")
    _use_local_stack()
    assert places() == {"TIDELINE_ACTOR": "ada"}
    assert capsys.readouterr().err == ""


def test_a_stack_that_is_not_up_is_not_used(run):
    _use_local_stack()
    stack(run, ready=False)
    _use_local_stack()
    assert places() == {}


@pytest.mark.parametrize("option", ["--help", "-h", "--version"])
def test_help_says_nothing_about_a_stack(run, monkeypatch, capsys, option):
    stack(run)
    monkeypatch.setattr("sys.argv", ["tideline", "streams", option])
    _use_local_stack()
    assert capsys.readouterr().err == ""
