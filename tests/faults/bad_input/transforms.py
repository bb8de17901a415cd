"""The `transform.py` of each pipeline."""

BY_ACT = '''\
import pyarrow as pa
import pyarrow.compute as pc


class SpeechlessError(Exception):
    def __str__(self):
        raise RuntimeError("no words")


def deeper():
    deeper()


def records(batch):
    acts = set(batch["act"].to_pylist())
    if "raise" in acts:
        raise ValueError("asked to raise \\x1b[31m %s {} \\ud800")
    if "speechless" in acts:
        raise SpeechlessError
    if "nothing" in acts:
        return None
    if "recurse" in acts:
        deeper()
    rows = flat(batch.filter(pc.not_equal(pc.fill_null(batch["act"], ""), "filter")))
    if "columns" in acts:
        return rows.drop_columns("s")
    if "homeless" in acts:
        return rows.drop_columns("kafka")
    if "types" in acts:
        rows = replaced(rows, "i4", pc.add(rows["i4"].cast("int64"), 2**40))
    if "forge" in acts:
        rows = forged(rows)
    if "garbage" in acts:
        names = [None if name is None else name.encode() for name in rows["name"].to_pylist()]
        raw = pa.array([b"\\xff" if act == "garbage" else name for act, name in zip(rows["act"].to_pylist(), names)])
        rows = replaced(rows, "name", pa.Array.from_buffers(pa.string(), len(raw), raw.buffers()))
    return twice(rows).drop_columns(["act", "place"])


def flat(batch):
    """Return the batch with the fields of the struct as columns."""
    place = batch["place"].combine_chunks()
    return batch.append_column("lat", pc.struct_field(place, "lat")).append_column("name", pc.struct_field(place, "name"))


def twice(rows):
    """Return two rows of a record that requests them; the table refuses the second one if that is requested, too."""
    rows = rows.append_column("item", pa.array([0] * len(rows), pa.int32()))
    more = rows.filter(pc.is_in(rows["act"], pa.array(["two", "two, one refused"])))
    refused = pc.equal(more["act"], "two, one refused")
    more = replaced(more, "i4", pc.if_else(refused, pa.scalar(13, more["i4"].type), more["i4"]))
    return pa.concat_tables([rows, replaced(more, "item", pa.array([1] * len(more), pa.int32()))])


def forged(rows):
    """Replace the key, value, timestamp and headers of the record."""
    kafka = rows["kafka"].to_pylist()
    for record, act in zip(kafka, rows["act"].to_pylist()):
        if act == "forge":
            record.update(key=b"forged", value=None, timestamp=None, headers=None)
    return replaced(rows, "kafka", pa.array(kafka, rows["kafka"].type))


def replaced(rows, name, column):
    return rows.set_column(rows.schema.get_field_index(name), name, column)
'''
"""Field `act` of a record says what this transform does with it."""

WITH_KEY = """\
import pyarrow.compute as pc


def records(batch):
    key = pc.struct_field(batch["kafka"].combine_chunks(), "key")
    return batch.append_column("k", key.cast("string"))
"""

FRAMED = """\
def frame(df):
    return df
"""
