"""The tour plays each shipped pipeline that the demo does not play, and says which parts it has."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tideline.errors import FatalError
from tideline_demo import anomalies, loads, tour

PROJECT = Path(__file__).resolve().parents[2]


def test_the_demo_or_a_part_of_the_tour_plays_each_shipped_pipeline():
    shipped = {file.parent.name for file in (PROJECT / "include" / "pipelines").glob("*/pipeline.yaml")}
    played = [sys.modules[part.play.__module__].DAG for part in tour.PARTS.values()]
    assert {loads.DAG, anomalies.CONVERSIONS, *played} == shipped
    assert len(set(played)) == len(tour.PARTS)


def test_an_unknown_part_is_refused_with_a_line_for_each_part():
    with pytest.raises(FatalError, match="no part seasons, cellar;") as error:
        tour.check(["sessions", "seasons", "cellar"])
    for name, part in tour.PARTS.items():
        assert re.search(rf"^ +{name} +{part.about}$", str(error.value), re.MULTILINE)


def test_an_unknown_part_is_refused_before_the_stack_starts():
    command = [sys.executable, "-m", "tideline_demo.tour", "seasons"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == FatalError.exit_code
    assert done.stdout == ""
    assert "the tour has no part seasons" in done.stderr


def test_the_list_of_make_names_each_part():
    said = subprocess.run(["make", "help"], cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    assert f"PARTS='{' '.join(tour.PARTS)}'" in said
