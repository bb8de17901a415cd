"""The token of `/tideline/metrics`, from a variable or from a file. What is wrong opens nothing."""

import pytest

from tideline import settings
from tideline.errors import FatalError

TOKEN, FILE = "TIDELINE_METRICS_TOKEN", "TIDELINE_METRICS_TOKEN_FILE"


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in (TOKEN, FILE):
        monkeypatch.delenv(name, raising=False)


def test_without_a_variable_there_is_no_token(monkeypatch):
    assert settings.metrics_token() is None
    monkeypatch.setenv(TOKEN, "")
    assert settings.metrics_token() is None


def test_a_token_is_what_the_variable_holds(monkeypatch):
    monkeypatch.setenv(TOKEN, "abc")
    assert settings.metrics_token() == "abc"


def test_a_token_in_a_file_is_read_each_time_without_its_line_break(monkeypatch, tmp_path):
    file = tmp_path / "token"
    monkeypatch.setenv(FILE, str(file))
    for token in ("abc", "changed"):
        file.write_text(f"{token}\n")
        assert settings.metrics_token() == token


@pytest.mark.parametrize("content", [None, b"", b" \n", b"\xff\xfe"], ids=["missing", "empty", "blank", "not-text"])
def test_a_file_without_a_token_is_refused_and_never_an_empty_token(monkeypatch, tmp_path, content):
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    monkeypatch.setenv(FILE, str(file))
    with pytest.raises(FatalError, match="TIDELINE_METRICS_TOKEN_FILE"):
        settings.metrics_token()


def test_two_tokens_are_refused(monkeypatch, tmp_path):
    (tmp_path / "token").write_text("abc")
    monkeypatch.setenv(FILE, str(tmp_path / "token"))
    monkeypatch.setenv(TOKEN, "abc")
    with pytest.raises(FatalError, match="both set"):
        settings.metrics_token()
