"""The benchmarks say what is missing before they begin."""

import pytest

from benchmarks.__main__ import check_jars


def test_a_benchmark_without_jars_names_the_folders_and_what_to_run(tmp_path):
    for name in ("spark", "kafka"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.jar").touch()
    with pytest.raises(SystemExit, match=f"no jars in {tmp_path}/delta: run make setup"):
        check_jars(tmp_path)
    (tmp_path / "delta").mkdir()
    (tmp_path / "delta" / "a.jar").touch()
    check_jars(tmp_path)
