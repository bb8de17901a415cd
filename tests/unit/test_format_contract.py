"""The laws of every format: what becomes of a record depends on its bytes alone, and no bytes end the process or the batch."""

import pickle
import re
from random import Random

import pyarrow as pa
import pytest

from format_contract import CASES, decoded, mutated, outcomes
from tideline.domain.reject_reasons import MAX_REASON
from tideline.formats import kinds
from tideline.formats.format import RawRecords

COUNT = 400


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def case(request):
    return request.param


def drawn(case, rng, count):
    """Records of which some are good, some are not, and some are tombstones."""
    good = [case.draw(rng)[0] for _ in range(count)]
    return [rng.choice([one, one, mutated(rng, one), None if rng.random() < 0.2 else one]) for one in good]


def test_every_format_of_a_declaration_is_in_the_contract():
    assert {*kinds.FORMATS} == {re.match(r"\w+", case.name)[0] for case in CASES}


def test_a_good_record_is_the_row_that_another_encoder_has_put_in(case):
    rng = Random(1)
    records, rows = zip(*(case.draw(rng) for _ in range(COUNT)), strict=True)
    assert outcomes(case.decoded(list(records)), COUNT) == list(rows)


@pytest.mark.parametrize("seed", range(3))
def test_each_record_is_decoded_as_if_it_were_alone(case, seed):
    rng = Random(seed)
    records = drawn(case, rng, COUNT)
    together = outcomes(case.decoded(records), COUNT)
    for position in rng.sample(range(COUNT), 60):
        [alone] = outcomes(case.decoded([records[position]]), 1)
        assert alone == together[position], (records[position], seed)


@pytest.mark.parametrize("seed", range(3))
def test_a_batch_that_is_cut_anywhere_gives_the_same_result(case, seed):
    rng = Random(seed)
    records = drawn(case, rng, COUNT)
    cut = rng.randrange(COUNT + 1)
    one = case.format()
    parts = outcomes(decoded(one, records[:cut], case.schemas), cut) + outcomes(
        decoded(one, records[cut:], case.schemas), COUNT - cut
    )
    assert parts == outcomes(decoded(one, records, case.schemas), COUNT)


def test_what_a_decoder_has_seen_before_changes_nothing(case):
    rng = Random(5)
    records, others = drawn(case, rng, COUNT), drawn(case, rng, COUNT)
    decode = case.decoder()
    raw = [
        RawRecords(part="value", keys=pa.nulls(COUNT, pa.binary()), values=pa.array(part, pa.binary()))
        for part in (records, others, records)
    ]
    first, _, again = (outcomes(decode(one), COUNT) for one in raw)
    assert again == first


def test_bytes_behind_a_record_are_a_reject(case):
    if not case.ends:
        pytest.skip("all bytes of a record are its value")
    rng = Random(2)
    good = [case.draw(rng)[0] for _ in range(50)]
    longer = [one + tail for one in good for tail in (b"\0", b"x", one)]
    found = case.decoded([*good, *longer])
    assert found.kept.to_pylist() == list(range(50))


@pytest.mark.parametrize("seed", range(3))
def test_no_bytes_fail_a_batch_or_change_its_columns(case, seed):
    rng = Random(seed)
    hostile = [rng.randbytes(rng.randrange(40)) for _ in range(COUNT)]
    hostile += [b"", b"\0" * 30, b"\xff" * 30, b"[" * 5_000, b"\x80" * 5_000, b"{" * 5_000]
    found = case.decoded(hostile)
    outcomes(found, len(hostile))
    assert found.table.schema.equals(case.decoded([]).table.schema)
    assert all(len(reason) <= MAX_REASON and reason.isprintable() for reason in found.rejected.values())


def test_a_tombstone_is_a_reject_that_says_so_or_deletes(case):
    found = case.decoded([None])
    if found.deletions is None:
        assert "tombstone" in found.rejected[0]
    else:
        assert found.deletions.positions.to_pylist() == [0]


def test_no_records_are_no_rows_of_the_same_columns(case):
    found = case.decoded([])
    assert (found.table.num_rows, len(found.kept), found.rejected) == (0, 0, {})
    assert found.table.column_names == [*case.draw(Random(1))[1]]


def test_a_format_can_travel_to_an_executor(case):
    rng = Random(3)
    records = drawn(case, rng, 50)
    travelled = pickle.loads(pickle.dumps(case.format()))
    assert outcomes(decoded(travelled, records, case.schemas), 50) == outcomes(case.decoded(records), 50)


def test_arrays_of_any_kind_of_bytes_are_batches(case):
    rng = Random(4)
    records = drawn(case, rng, 30)
    expected = outcomes(case.decoded(records), 30)
    plain = pa.array([b"before", *records], pa.binary()).slice(1)
    for values in (
        plain,
        pa.chunked_array([records[:7], [], records[7:]], pa.binary()),
        pa.array(records, pa.large_binary()),
    ):
        raw = RawRecords(part="value", keys=pa.nulls(30, pa.binary()), values=values)
        assert outcomes(case.decoder()(raw), 30) == expected
