"""The fixture of the tests of declarations."""

from functools import partial

import pytest

import small_declaration


@pytest.fixture
def declare(tmp_path, monkeypatch):
    """Return a function that writes one pipeline's folder, with `old` replaced by `new` in the smallest declaration."""
    monkeypatch.setenv("TIDELINE_PIPELINES", str(tmp_path))
    return partial(small_declaration.write, tmp_path)
