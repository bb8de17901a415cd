"""Conversion of Airflow's description of a run: Airflow's own values become plain ones."""

from datetime import UTC, datetime
from types import SimpleNamespace

import pendulum
import pytest
from airflow.sdk.api.datamodels._generated import DagRunType

from tideline.airflow.tasks import _triggered

HOUR = {
    "data_interval_start": pendulum.datetime(2026, 11, 21, 13),
    "data_interval_end": pendulum.datetime(2026, 11, 21, 14),
}


@pytest.mark.parametrize("kind", DagRunType)
def test_the_kind_of_a_run_is_the_word_that_the_form_is_read_by(kind):
    run = SimpleNamespace(run_type=kind, conf={"until": None})
    triggered = _triggered({"dag_run": run, "params": {"load": "new records"}, **HOUR})
    assert (type(triggered.run_type), triggered.run_type) == (str, kind.value)
    assert set(triggered.conf_keys) == {"until"}


def test_a_data_interval_loses_what_pendulum_adds():
    """Pendulum's difference of two times cannot be divided by a timedelta."""
    run = SimpleNamespace(run_type=DagRunType.SCHEDULED, conf=None)
    start, end = _triggered({"dag_run": run, "params": {}, **HOUR}).interval
    assert {type(start), type(end)} == {datetime}
    assert (start, end) == (datetime(2026, 11, 21, 13, tzinfo=UTC), datetime(2026, 11, 21, 14, tzinfo=UTC))


@pytest.mark.parametrize("context", [{}, dict.fromkeys(HOUR)])
def test_a_run_without_an_interval_has_none(context):
    """A run of an asset, or one triggered without a logical date: the keys do not exist at all."""
    run = SimpleNamespace(run_type=DagRunType.ASSET_TRIGGERED, conf=None)
    assert _triggered({"dag_run": run, "params": {}, **context}).interval is None
