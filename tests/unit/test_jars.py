"""`tideline jars`: what it refuses before it downloads anything."""

import pytest

from tideline.deployment import jars
from tideline.errors import FatalError


def test_a_folder_that_holds_something_else_is_not_replaced(tmp_path):
    (tmp_path / "letter.txt").write_text("keep me")
    with pytest.raises(FatalError, match=r"expected a new folder, or one that holds only jars, found letter\.txt"):
        jars.fetch({"spark": tmp_path})
    assert (tmp_path / "letter.txt").read_text() == "keep me"


def test_a_file_is_not_replaced(tmp_path):
    (tmp_path / "jars").write_text("a file")
    with pytest.raises(FatalError, match="found a file"):
        jars.fetch({"spark": tmp_path / "jars"})
    assert (tmp_path / "jars").read_text() == "a file"
