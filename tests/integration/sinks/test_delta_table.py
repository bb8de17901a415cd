"""The law of the Delta sink: the rows of a batch are in the table once or not at all, whichever attempts race. In a folder and in an object store."""

import time
from datetime import UTC, datetime

import pytest
from deltalake.exceptions import DeltaError

from identities import batch
from loads import lake_tables
from loads.lake_tables import Lake, own
from servers import s3_server
from tideline.domain import receipts
from tideline.errors import NeedsOperatorError, RetryableError, SupersededError
from tideline.sinks.delta import delta_files, delta_log
from tideline.sinks.delta.delta_table import PLACEHOLDER, DeltaOutput
from tideline.sinks.outside import ForgottenError


@pytest.fixture
def lake(each_lake: Lake) -> Lake:
    return each_lake


def test_a_batch_is_committed_once_however_often_its_attempt_tries(lake: Lake):
    table, attempt = lake.created(), own(1)
    assert table.commit(7, attempt, [1, 2]) == attempt
    assert table.commit(7, attempt, [1, 2]) == attempt
    assert table.rows() == [(7, 1, "attempt 1"), (7, 2, "attempt 1")]
    assert table.output.look(batch(7)) == attempt


def test_another_attempt_at_a_committed_batch_is_refused(lake: Lake):
    table = lake.created()
    table.commit(7, own(1), [1])
    for fence in (1, 2):
        with pytest.raises(SupersededError, match="attempt 1 has committed it"):
            table.commit(7, own(fence), [1])
    assert table.rows() == [(7, 1, "attempt 1")]


def test_a_file_that_exists_is_never_opened_for_writing(tmp_path):
    """A row of a committed batch stays, whatever a driver from before a restore, or another ledger, calls its files."""
    files = delta_files.filesystem(lake_tables.in_folder(tmp_path).created().output.location)
    with files.open_output_stream("tideline/a/1-b/0-1.parquet") as out:
        out.write(b"committed")
    with pytest.raises(FileExistsError):
        files.open_output_stream("tideline/a/1-b/0-1.parquet")
    assert (tmp_path / "events/tideline/a/1-b/0-1.parquet").read_bytes() == b"committed"


def test_the_table_lists_all_batches_of_its_pipeline_also_those_before_a_checkpoint(each_lake):
    table = each_lake.created()
    assert table.output.identities() == []
    table.commit(7, own(1), [1])
    table.output.fence(batch(8), 2)
    delta_log.commit(table.reopened(), [], transaction=(f"tideline/others/{batch(6).identity}", 3), metadata={})
    table.reopened().create_checkpoint()
    assert {*table.output.identities()} == {batch(7).identity, batch(8).identity}
    table.commit(9, own(1), [2])
    table.commit(8, own(2), [3])
    assert sorted(table.output.identities()) == [batch(number).identity for number in (7, 8, 9)]


def test_the_receipt_of_a_commit_that_a_restore_has_taken_back_says_so(each_lake):
    table, first, second = each_lake.created(), own(1), own(1)
    table.commit(7, first, [1])
    kept = table.reopened().version()
    table.commit(8, second, [2])
    table.reopened().restore(kept)
    table.commit(9, own(1), [3])
    assert table.output.look(batch(8)) == second, "application ids stay"
    gone = [table.output.look(batch(number)).gone for number in (7, 8, 9)]
    assert (gone, [offset for _, offset, _ in table.rows()]) == ([False, True, False], [1, 3])


def a_moment_after() -> datetime:
    """Return a time that lies between the last commit and the next. An object store may count seconds."""
    time.sleep(1.1)
    moment = datetime.now(UTC)
    time.sleep(1.1)
    return moment


def test_the_receipt_of_a_commit_that_a_restore_to_a_time_has_taken_back_says_so(each_lake):
    """The log does not say which version was brought back. Two restores, the second one over a compaction."""
    table = each_lake.created()
    table.commit(7, own(1), [1])
    moment = a_moment_after()
    for number in (8, 9):
        table.commit(number, own(1), [number])
    table.reopened().restore(moment)
    table.commit(10, own(1), [10])
    moment = a_moment_after()
    table.reopened().optimize.compact()
    table.commit(11, own(1), [11])
    table.reopened().restore(moment)
    gone = [table.output.look(batch(number)).gone for number in (7, 8, 9, 10, 11)]
    assert (gone, [offset for _, offset, _ in table.rows()]) == ([False, True, True, False, True], [1, 10])


def test_whether_a_commit_is_gone_is_asked_where_the_log_does_not_reach_back_to_what_was_restored(tmp_path):
    """A cleanup of the log leaves versions that cannot be read: it has removed those that they rest on."""
    table = lake_tables.in_folder(tmp_path).created()
    table.commit(7, own(1), [7])
    moment = a_moment_after()
    table.commit(8, own(1), [8])
    table.reopened().restore(moment)
    table.reopened().create_checkpoint()
    (tmp_path / "events/_delta_log" / f"{0:020}.json").unlink()
    assert [offset for _, offset, _ in table.rows()] == [7]
    for number in (7, 8):
        with pytest.raises(ForgottenError, match="a moment that its log does not tell") as caught:
            table.output.look(batch(number))
        assert (caught.value.fence, caught.value.entry) == (1, "output-was-restored")


def test_an_attempt_that_wakes_up_after_the_fence_is_refused(lake: Lake):
    table, zombie = lake.created(), own(1)
    staged = table.staged(7, 1, [1])
    assert table.output.fence(batch(7), 2) is None
    with pytest.raises(SupersededError, match="fenced up to 2"):
        table.output.commit(batch(7), zombie, lambda _: [staged], ranges="")
    newer = own(2)
    assert table.commit(7, newer, [1]) == newer
    assert table.rows() == [(7, 1, "attempt 2")]


def test_an_attempt_that_is_fenced_between_its_look_and_its_commit_is_refused(lake: Lake):
    table, zombie = lake.created(), own(1)
    staged = table.staged(7, 1, [1])

    def frozen(_: object) -> list[delta_log.Change]:
        table.output.fence(batch(7), 2)
        return [staged]

    with pytest.raises(SupersededError):
        table.output.commit(batch(7), zombie, frozen, ranges="")
    assert table.rows() == []


def test_a_fence_finds_what_an_older_attempt_has_committed(lake: Lake):
    table, first = lake.created(), own(1)
    table.commit(7, first, [1])
    assert table.output.fence(batch(7), 2) == first
    assert table.output.fence(batch(7), 3) == first


def test_fences_only_rise(lake: Lake):
    table = lake.created()
    assert table.output.fence(batch(7), 4) is None
    assert table.output.fence(batch(7), 2) is None
    assert table.output.version(table.reopened(), batch(7).identity) == receipts.marker(4)
    with pytest.raises(SupersededError):
        table.commit(7, own(3), [1])
    assert table.commit(7, own(4), [1]).fence == 4


def test_a_stale_handle_is_refused_even_by_commits_of_other_batches(lake: Lake):
    table = lake.created()
    stale = table.reopened()
    table.commit(8, own(1), [1])
    with pytest.raises(delta_log.TakenError):
        delta_log.commit(
            stale, [table.staged(7, 1, [2])], transaction=(f"tideline/events/{batch(7).identity}", 3), metadata={}
        )
    assert table.rows() == [(8, 1, "attempt 1")]


def test_a_batch_without_rows_has_a_receipt(lake: Lake):
    table, attempt = lake.created(), own(1)
    table.commit(7, attempt, [])
    assert table.output.look(batch(7)) == attempt
    assert table.rows() == []


def test_a_table_that_does_not_exist_is_fenced_too(lake: Lake):
    output = DeltaOutput(location=lake.location())
    assert output.look(batch(7)) is None
    assert output.fence(batch(7), 2) is None
    table = lake_tables.Table(output)
    assert PLACEHOLDER in table.reopened().schema().to_arrow().names
    with pytest.raises(SupersededError):
        table.commit(7, own(1), [1])


def test_a_table_that_was_removed_is_reported(lake: Lake):
    with pytest.raises(NeedsOperatorError, match="found no table there"):
        lake_tables.Table(DeltaOutput(location=lake.location())).commit(7, own(1), [])


def test_a_commit_whose_answer_is_lost_is_found(lake: Lake, monkeypatch: pytest.MonkeyPatch):
    table, attempt = lake.created(), own(1)
    monkeypatch.setattr(delta_log, "commit", _answer_lost(delta_log.commit))
    assert table.commit(7, attempt, [1]) == attempt
    assert table.rows() == [(7, 1, "attempt 1")]


def test_a_fence_whose_answer_is_lost_is_found(lake: Lake, monkeypatch: pytest.MonkeyPatch):
    table = lake.created()
    monkeypatch.setattr(delta_log, "commit", _answer_lost(delta_log.commit))
    assert table.output.fence(batch(7), 2) is None
    assert table.output.version(table.reopened(), batch(7).identity) == receipts.marker(2)


def test_a_commit_that_never_happens_is_given_up(lake: Lake, monkeypatch: pytest.MonkeyPatch):
    table = lake.created()

    def refused(*_: object, **__: object) -> None:
        raise delta_log.UnknownError("no space left on device")

    monkeypatch.setattr(delta_log, "commit", refused)
    with pytest.raises(RetryableError, match="no space left"):
        table.commit(7, own(1), [1])
    assert table.rows() == []


def test_storage_that_does_not_answer_is_retryable():
    lake = lake_tables.in_store(s3_server.at("http://127.0.0.1:9"))
    lake.options.update({"max_retries": "0", "timeout": "1s"})
    output = DeltaOutput(location=lake.location())
    for call in (lambda: output.fence(batch(7), 2), lambda: output.look(batch(7))):
        with pytest.raises(RetryableError) as raised:
            call()
        assert raised.value.entry == "delta-table-does-not-answer"
        assert lake.secrets["AWS_SECRET_ACCESS_KEY"] not in str(raised.value)


def _answer_lost(real):
    """Commit, and lose the answer of the first commit."""
    lost = []

    def commit(*given, **named):
        real(*given, **named)
        if not lost:
            lost.append(True)
            raise delta_log.UnknownError("connection reset")

    return commit


def test_the_library_still_raises_what_the_sink_catches():
    assert issubclass(delta_log.CommitFailedError, DeltaError)
