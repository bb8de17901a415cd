"""What executors get from the driver: all of Tideline, and of other code only what stands in no installation."""

import importlib
import sys

import pytest

from tideline.spark_jobs import shipped_code


@pytest.fixture
def beside_the_dags(tmp_path, monkeypatch):
    """Import a package and a module from a folder on the path of Python, as a transform does."""
    (tmp_path / "shop_rules" / "money").mkdir(parents=True)
    for name in (
        "shop_rules/__init__.py",
        "shop_rules/money/__init__.py",
        "shop_rules/money/prices.py",
        "shop_zones.py",
    ):
        (tmp_path / name).touch()
    (tmp_path / "shop_unused.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    for name in ("shop_rules.money.prices", "shop_zones"):
        importlib.import_module(name)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_the_modules_that_a_transform_imports_are_sent_and_those_of_installations_are_not(beside_the_dags):
    sent = {place: file for file, place in shipped_code._of_transforms()}
    places = ("shop_rules/__init__.py", "shop_rules/money/__init__.py", "shop_rules/money/prices.py", "shop_zones.py")
    assert {place: sent.get(place) for place in places} == {place: beside_the_dags / place for place in places}
    tops = {place.split("/")[0].removesuffix(".py") for place in sent}
    assert tops.isdisjoint({"tideline", "pyspark", "pyarrow", "numpy", "pytest", "json", "shop_unused"})


def test_a_transform_itself_is_not_sent_as_a_module(beside_the_dags, monkeypatch):
    path = beside_the_dags / "transform.py"
    path.touch()
    spec = importlib.util.spec_from_file_location("tideline_transform_orders", path)
    monkeypatch.setitem(sys.modules, spec.name, importlib.util.module_from_spec(spec))
    assert path not in {file for file, _ in shipped_code._of_transforms()}


def test_all_of_tideline_is_sent_as_it_is_imported():
    sent = {place: file for file, place in shipped_code._own()}
    for module in ("tideline", "tideline.spark_jobs.tasks", "tideline.formats.avro.lockstep"):
        place = f"{module.replace('.', '/')}{'/__init__' if module == 'tideline' else ''}.py"
        assert sent[place].samefile(importlib.import_module(module).__file__)
    assert "tideline/spark_jobs/write_batches.sql" in sent
    assert not [place for place in sent if "__pycache__" in place]
