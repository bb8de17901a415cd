"""Let an asynchronous standby take over that lacks the newest transactions: the ledger goes back. By `make test-cluster`."""

from collections.abc import Iterator

import pytest

from faults.jobs.failover_servers import FailoverServers
from faults.jobs.job_verdict import doctors
from faults.jobs.order_outputs import Sink
from faults.jobs.rounds import TASK_S
from faults.jobs.struck_load import StruckLoad
from tideline.errors import NeedsOperatorError

ROWS = "SELECT count(*) FROM {}"


@pytest.fixture(scope="module")
def asynchronous(tmp_path_factory) -> Iterator[FailoverServers]:
    """Yield servers whose standby may lack the newest transactions."""
    with FailoverServers(tmp_path_factory.mktemp("asynchronous"), synchronous=False).running() as running:
        yield running


def one_run(play: StruckLoad, run_id: str) -> int:
    """Load what there is in one run. Return the exit code of its task `write`."""
    return play.rounds.submit(run_id, play.rounds.plan(run_id), 1).wait(TASK_S)


def test_batches_that_an_asynchronous_standby_has_lost_are_loaded_again_into_a_table_which_has_lost_them_too(
    asynchronous, tmp_path, monkeypatch
):
    for name, value in asynchronous.variables().items():
        monkeypatch.setenv(name, value)
    play = StruckLoad("standby", asynchronous, Sink.APPEND, tmp_path)
    try:
        asynchronous.cut_standby()
        assert one_run(play, "lost") == 0
        assert play.witness.rows(ROWS.format(play.output.table)) != [(0,)]
        asynchronous.fail_over()
        assert play.witness.rows("SELECT to_regclass(%s)", play.output.table) == [(None,)]
        play.strikes_left = 0
        play.rounds.start()
        play.rounds.finish(TASK_S)
        broken, n_records = play.verdict()
    finally:
        play.stop()
    assert (broken, n_records) == ([], play.n_records)


@pytest.mark.parametrize("outside", [Sink.TOPIC, Sink.LAKE])
def test_commits_that_an_asynchronous_standby_has_lost_are_noticed_where_the_output_is_another_system(
    asynchronous, outside, tmp_path, monkeypatch
):
    """A batch whose plan the standby has is not loaded twice. One whose plan it has lost too is planned anew: only `doctor` names it."""
    for name, value in asynchronous.variables().items():
        monkeypatch.setenv(name, value)
    play = StruckLoad("standby", asynchronous, outside, tmp_path)
    try:
        batch_ids = play.rounds.plan("planned")
        asynchronous.cut_standby()
        assert play.rounds.submit("planned", batch_ids, 1).wait(TASK_S) == 0
        asynchronous.fail_over()
        job = play.rounds.submit("planned", batch_ids, 2)
        assert job.wait(TASK_S) == NeedsOperatorError.exit_code
        assert "which this ledger does not know" in job.log.read_text()
        assert play.rounds.plan("later") == batch_ids, "more was planned than what must be decided about"
        found = doctors(asynchronous.url, play.rounds.pipeline)
    finally:
        play.stop()
    assert ["holds rows of batches or attempts that the ledger does not know" in one for one in found] == [True]
