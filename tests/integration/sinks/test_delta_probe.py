"""The check of `tideline doctor` on storage: of two commits to one version, one must be refused."""

from pathlib import Path

import pytest

from loads import lake_tables
from servers import s3_server
from tideline.errors import RetryableError
from tideline.sinks.delta import delta_probe


def test_a_folder_passes_and_nothing_is_left_in_it(tmp_path):
    assert delta_probe.probe(lake_tables.in_folder(tmp_path).location()) is None
    assert not [path for path in Path(tmp_path).rglob("*") if path.is_file()]


def test_a_store_with_conditional_puts_passes_and_one_that_overwrites_is_found(store, tmp_path):
    assert delta_probe.probe(lake_tables.in_store(store).location()) is None
    with s3_server.running(tmp_path / "bad.log", overwrites=True) as bad:
        found = delta_probe.probe(lake_tables.in_store(bad).location())
    assert found == "of two commits to one version expected one to be refused, found: committed and committed"


def test_storage_that_does_not_answer_is_said():
    lake = lake_tables.in_store(s3_server.at("http://127.0.0.1:9"))
    lake.options.update({"max_retries": "0", "timeout": "1s"})
    with pytest.raises(RetryableError, match="cannot be read or written"):
        delta_probe.probe(lake.location())
