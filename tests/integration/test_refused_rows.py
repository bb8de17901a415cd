"""A row that only the table can refuse affects only its record: keys, foreign keys, triggers, generated columns, indexes and partitions."""

import pytest

import records
from loads.loading import KEY, LATER, TABLE, acting, declare, given, reasons, target
from tideline.domain.requests import KeptRejects, OneBatch
from tideline.errors import FatalError, NeedsOperatorError
from tideline.ledger.attempts import Writer
from tideline.spark_jobs import write_batches

# For the records with the ids 0 to 5 and the names n0 to n3, n1 and n3: the table, the refused ones, and their reason.
NAMES = ["n0", "n1", "n2", "n3", "n1", "n3"]
REFUSING = {
    "a further UNIQUE": (
        target(after="ALTER TABLE ads.output ADD CONSTRAINT names UNIQUE (name)"),
        [4, 5],
        'unique constraint "names": Key (name)=(n',
    ),
    "a UNIQUE that is checked at COMMIT": (
        target(after="ALTER TABLE ads.output ADD CONSTRAINT names UNIQUE (name) DEFERRABLE INITIALLY DEFERRED"),
        [4, 5],
        'unique constraint "names"',
    ),
    "a primary key of its own": (
        target(TABLE.replace("PRIMARY KEY (", "PRIMARY KEY (name), UNIQUE (")),
        [4, 5],
        'unique constraint "output_pkey": Key (name)=(n',
    ),
    "a unique index over an expression of some of the rows": (
        target(after="CREATE UNIQUE INDEX shouted ON ads.output (upper(name)) WHERE id > 1 AND name <> '100%'"),
        [5],
        'unique constraint "shouted": Key (upper(name))=(N3)',
    ),
    "an index over an expression that raises": (
        target(after="CREATE INDEX ON ads.output ((1 / (id - 2)))"),
        [2],
        "division by zero",
    ),
    "a foreign key": (
        target(before="CREATE TABLE known (id bigint PRIMARY KEY); INSERT INTO known VALUES (0), (1), (4), (5)",
               after="ALTER TABLE ads.output ADD FOREIGN KEY (id) REFERENCES known"),
        [2, 3],
        'foreign key constraint "output_id_fkey": Key (id)=(',
    ),
    "a foreign key that is checked at COMMIT": (
        target(before="CREATE TABLE known (id bigint PRIMARY KEY); INSERT INTO known VALUES (0), (1), (4), (5)",
               after="ALTER TABLE ads.output ADD FOREIGN KEY (id) REFERENCES known DEFERRABLE INITIALLY DEFERRED"),
        [2, 3],
        'foreign key constraint "output_id_fkey": Key (id)=(',
    ),
    "a trigger that raises": (
        target(after=acting("IF NEW.id = 3 THEN RAISE 'no threes'; END IF; RETURN NEW;")),
        [3],
        "no threes",
    ),
    "a trigger that raises at COMMIT": (target(after=LATER), [3], "three at last"),
    "a trigger that leaves rows out": (
        target(after=acting("RETURN CASE WHEN NEW.id <> 3 THEN NEW END;")),
        [3],
        "a trigger of the table left the row out",
    ),
    "a generated column": (
        target(TABLE.replace("id bigint", "id bigint, part integer GENERATED ALWAYS AS ((10 / (4 - id))) STORED")),
        [4],
        "division by zero",
    ),
    "a CHECK of a column that the transform does not fill": (
        target(TABLE.replace("id bigint", "id bigint, most bigint DEFAULT 3, CONSTRAINT few CHECK (id <= most)")),
        [4, 5],
        'check constraint "few"',
    ),
    "no partition": (
        target(TABLE + " PARTITION BY RANGE (kafka_offset)",
               after="CREATE TABLE ads.low PARTITION OF ads.output FOR VALUES FROM (0) TO (4)"),
        [4, 5],
        'no partition of relation "output" found for row: Partition key of the failing row contains (kafka_offset) = (',
    ),
    "an exclusion constraint": (
        target(after="ALTER TABLE ads.output ADD CONSTRAINT apart EXCLUDE USING gist (int8range(id / 2, id / 2, '[]') WITH &&)"),
        [1, 3, 5],
        'exclusion constraint "apart": Key',
    ),
}  # fmt: skip


@pytest.mark.parametrize("why", REFUSING)
def test_a_row_that_only_the_table_can_refuse_costs_its_record_only(loading, why):
    text, refused, reason = REFUSING[why]
    values = [given(number, name) for number, name in enumerate(NAMES)]
    declare(loading, values, text, fail_above=0.9)
    loading.run()
    found = reasons(loading)
    assert sorted(found) == refused
    assert all(reason in said for said in found.values()), found
    assert {offset: value for (_, offset), (_, _, value) in loading.rejects().items()} == {
        offset: values[offset].encode() for offset in refused
    }
    assert sorted(row[0] for row in loading.output().values()) == [n for n in range(6) if n not in refused]
    n_refused = len(refused)
    assert loading.counts() == {
        "n_read": 6, "n_written": 6 - n_refused, "n_rejected": n_refused, "n_filtered": 0, "n_gap": 0,
    }  # fmt: skip
    assert (loading.heads(), loading.staging_tables()) == ([6], [])


def test_two_of_a_thousand_records_that_break_a_unique_key_are_rejects(loading):
    """The first one by partition and offset is kept, within the batch and compared with existing rows."""
    text = target(after="ALTER TABLE ads.output ADD UNIQUE (id)")
    values = [given(500 if n in {700, 900} else n, "x") for n in range(1000)]
    topic = declare(loading, values, text, partitions=2)
    loading.run()
    assert set(loading.rejects()) == {(0, 350), (0, 450)}
    assert loading.published() == 998
    records.produce(loading.bootstrap, topic, [given(n, "y") for n in (1000, 5, 1001)], partitions=2)
    loading.run()
    assert set(loading.rejects()) == {(0, 350), (0, 450), (1, 500)}
    assert loading.published() == 1000


TWICE = """\
    import pyarrow as pa

    def records(batch):
        twice = pa.concat_tables([batch, batch])
        items = [0] * len(batch) + [0 if n == 2 else 1 for n in batch["id"].to_pylist()]
        return twice.append_column("item", pa.array(items, pa.int32()))
    """
WITH_ITEM = TABLE.replace("id bigint", "id bigint, item integer").replace(f"({KEY})", f"({KEY}, item)")


def test_a_record_that_gives_one_item_twice_is_a_reject_with_all_of_its_rows(loading):
    declare(loading, [given(n, "x") for n in range(5)], target(WITH_ITEM), transform=TWICE, item="item")
    loading.run()
    assert 'unique constraint "output_pkey": Key' in reasons(loading).pop(2)
    assert loading.rows("SELECT id, count(*)::int FROM ads.output GROUP BY id ORDER BY id") == [
        (0, 2), (1, 2), (3, 2), (4, 2),
    ]  # fmt: skip


def test_what_a_refused_record_would_have_taken_is_left_to_the_next_one(loading):
    """Its first row has a name that is free, its second one a name that is taken. The whole record is rejected, so the first name stays free."""
    text = """\
        import pyarrow as pa

        def records(batch):
            rows = [(n, item, name) for n, names in enumerate(batch["name"].to_pylist()) for item, name in enumerate(names.split())]
            columns = {"item": pa.array([r[1] for r in rows], pa.int32()), "name": pa.array([r[2] for r in rows], pa.string())}
            return pa.table({**columns, "kafka": batch["kafka"].take(pa.array([r[0] for r in rows], pa.int64()))})
        """
    unique = target(WITH_ITEM, after="ALTER TABLE ads.output ADD UNIQUE (name)")
    names = ["a", "b a", "b", "c c", "c"]
    declare(loading, [given(n, name) for n, name in enumerate(names)], unique, transform=text, item="item")
    loading.run()
    assert sorted(reasons(loading)) == [1, 3]
    assert loading.rows("SELECT kafka_offset::int, name FROM ads.output ORDER BY 1") == [(0, "a"), (2, "b"), (4, "c")]


def test_rows_that_refer_to_rows_of_later_records_are_taken_where_those_are(loading):
    refers = target(
        after="ALTER TABLE ads.output ADD COLUMN own text GENERATED ALWAYS AS (split_part(name, '<', 1)) STORED, ADD UNIQUE (own),"
        " ADD COLUMN above text GENERATED ALWAYS AS (nullif(split_part(name, '<', 2), '')) STORED,"
        " ADD FOREIGN KEY (above) REFERENCES ads.output (own)"
    )
    names = ["a<c", "b<a", "c", "d<e", "e<unknown", "c"]
    declare(loading, [given(n, name) for n, name in enumerate(names)], refers, fail_above=0.9)
    loading.run()
    assert sorted(reasons(loading)) == [3, 4, 5]
    assert loading.published() == 3


FRAME = """\
    def frame(df):
        return df.repartition(3)
    """


@pytest.mark.parametrize("transform", ["", FRAME])
def test_a_replay_a_backfill_and_a_re_drive_reject_what_the_table_refuses(loading, transform):
    """Each keeps what Kafka had, to the byte."""
    loading.execute("CREATE TABLE known (id bigint PRIMARY KEY); INSERT INTO known SELECT generate_series(0, 9)")
    text = target(after="ALTER TABLE ads.output ADD FOREIGN KEY (id) REFERENCES known NOT VALID")
    values = [given(n, f"n{n}") for n in range(10)]
    declare(loading, values, text, transform=transform, fail_above=0.9)
    [batch] = loading.run()
    loading.execute("ALTER TABLE ads.output DROP CONSTRAINT output_id_fkey; DELETE FROM known WHERE id IN (3, 7);"
                     "ALTER TABLE ads.output ADD FOREIGN KEY (id) REFERENCES known NOT VALID")  # fmt: skip
    loading.run(OneBatch(batch_id=batch, replace=True))
    before = loading.rejects()
    assert {offset: value for (_, offset), (_, _, value) in before.items()} == {n: values[n].encode() for n in (3, 7)}
    assert sorted(row[0] for row in loading.output().values()) == [0, 1, 2, 4, 5, 6, 8, 9]
    loading.execute("INSERT INTO known VALUES (3)")
    loading.run(KeptRejects())
    assert {offset: value for (_, offset), (_, _, value) in loading.rejects().items()} == {7: values[7].encode()}
    assert sorted(row[0] for row in loading.output().values()) == [0, 1, 2, 3, 4, 5, 6, 8, 9]
    loading.run(KeptRejects())
    assert set(loading.rejects()) == {(0, 7)}
    assert loading.staging_tables() == []


FORBIDS = acting("IF NEW.id = 2 THEN RAISE 'not for you' USING ERRCODE = '42501'; END IF; RETURN NEW;")


def test_an_error_of_no_row_fails_its_batch_only_and_leaves_nothing_behind(loading):
    declare(loading, [given(n, "x") for n in range(10)], target(after=FORBIDS), batch_records=5)
    batch_ids = loading.plan("one")
    for try_number in (1, 2):
        writer = Writer(dag_id="test", run_id="one", task_id="write", try_number=try_number)
        with (
            loading.ledger() as ledger,
            pytest.raises(FatalError, match=r"ads\.output refuses the output as a whole: not for you"),
        ):
            write_batches.write_all(ledger, loading.pipeline, batch_ids, writer)
    assert (loading.states(), loading.rejects()) == (["failed", "published"], {})
    assert {row[0] for row in loading.output().values()} == {5, 6, 7, 8, 9}
    assert len(loading.staging_tables()) == 2
    loading.execute("DROP TRIGGER acts ON ads.output")
    loading.write("one", batch_ids, try_number=3)
    loading.advance("one")
    assert (loading.published(), loading.staging_tables(), loading.heads()) == (10, [], [10])
    assert loading.rows("SELECT count(*)::int FROM tideline.staged_count") == [(0,)]


def test_a_replay_of_rows_with_deferred_references_replaces_all_or_fails(loading):
    """Replaced rows may stay referenced; a refused row would leave a reference without its target."""
    unique = "ALTER TABLE ads.output ADD UNIQUE (id)"
    declare(loading, [given(n, "x") for n in range(4)], target(after=unique), fail_above=1)
    [batch] = loading.run()
    loading.execute(
        "CREATE TABLE readers (id bigint REFERENCES ads.output (id) DEFERRABLE INITIALLY DEFERRED); INSERT INTO readers VALUES (1), (2)",
    )
    loading.run(OneBatch(batch_id=batch, replace=True))
    assert loading.published() == 4
    loading.execute(acting("IF NEW.id = 2 THEN RAISE 'no twos'; END IF; RETURN NEW;"))
    replay = loading.plan("two", OneBatch(batch_id=batch, replace=True))
    with pytest.raises(
        FatalError, match=r'as a whole: .* on table "output" violates foreign key constraint "readers_id_fkey"'
    ):
        loading.write("two", replay)
    assert loading.published() == 4
    loading.execute("DELETE FROM readers WHERE id = 2")
    loading.write("two", replay, try_number=2)
    assert (loading.published(), set(loading.rejects())) == (3, {(0, 2)})


def test_records_refused_by_the_table_count_for_the_share_that_fails_a_batch(loading):
    declare(loading, [given(n, "x") for n in range(150)], target(after="ALTER TABLE ads.output ADD UNIQUE (name)"))
    said = loading.refusal(NeedsOperatorError)
    assert "149 of 150 records were rejected" in said
    assert "Key (name)=(x) already exists" in said
