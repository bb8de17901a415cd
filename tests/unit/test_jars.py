"""`tideline jars`: what it refuses before it downloads anything."""

import tomllib

import pytest
from packaging.requirements import Requirement

from tideline.deployment import jars
from tideline.errors import FatalError
from tideline.settings import PROJECT


def test_a_folder_that_holds_something_else_is_not_replaced(tmp_path):
    (tmp_path / "letter.txt").write_text("keep me")
    with pytest.raises(FatalError, match=r"expected a new folder, or one that holds only jars, found letter\.txt"):
        jars.fetch({"spark": tmp_path})
    assert (tmp_path / "letter.txt").read_text() == "keep me"


@pytest.mark.parametrize(("installed", "connector"), [("4.1.0", "4.1.3"), ("4.2.1", "4.2.0")])
def test_the_jars_follow_the_line_of_the_installed_spark(installed, connector):
    assert jars.variables(installed) == {"spark.line": installed[:3], "spark.connector": connector}


def test_a_spark_whose_jars_are_not_known_is_refused():
    with pytest.raises(FatalError, match=r"expected a version 4\.1\.x, 4\.2\.x, found 5\.0\.0"):
        jars.variables("5.0.0")


@pytest.mark.parametrize("line", ["4.0", "4.1", "4.2", "4.3"])
def test_there_are_jars_for_the_lines_of_spark_that_the_package_admits(line):
    declared = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["dependencies"]
    [admitted] = [one.specifier for one in map(Requirement, declared) if one.name == "pyspark"]
    assert admitted.contains(f"{line}.0") == (line in jars.CONNECTORS)


def test_a_file_is_not_replaced(tmp_path):
    (tmp_path / "jars").write_text("a file")
    with pytest.raises(FatalError, match="found a file"):
        jars.fetch({"spark": tmp_path / "jars"})
    assert (tmp_path / "jars").read_text() == "a file"
