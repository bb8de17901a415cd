"""Three pipelines over one topic: JSON with a column of every type and a transform that sometimes fails; text with an index; bytes with `frame`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import md5

from faults.bad_input.fates import TOMBSTONE, Case, Fate, Shown, Written
from faults.bad_input.good import COLUMNS
from faults.bad_input.transforms import BY_ACT, FRAMED, WITH_KEY

COORDINATES = """
    kafka_topic_id uuid,
    kafka_partition integer,
    kafka_offset bigint,
    tideline_batch bigint NOT NULL,
    PRIMARY KEY (kafka_topic_id, kafka_partition, kafka_offset{item})
);
"""
TYPED = (
    """\
CREATE SCHEMA IF NOT EXISTS ads;
CREATE FUNCTION ads.may(i8 bigint) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
    IF i8 = -1 THEN RAISE 'the function refuses -1'; END IF;
    RETURN true;
END $$;
CREATE TABLE ads.typed (
    id bigint NOT NULL,
    item integer NOT NULL,
    s text,
    b boolean,
    i2 smallint,
    i4 integer CHECK (i4 <> 13),
    i8 bigint CHECK (1 / i8 < 2) CHECK (ads.may(i8)),
    f4 real,
    f8 double precision,
    d numeric(12, 4),
    n numeric(6, 1),
    e numeric(38, 10),
    t timestamptz,
    day date,
    tags text[],
    lat double precision,
    name text,
    doc jsonb,
    u uuid,
    code varchar(5),
    part integer GENERATED ALWAYS AS (1000 / (i2 + 77)) STORED,"""
    + COORDINATES.format(item=", item")
    + """\
CREATE FUNCTION ads.act() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.code = 'raise' THEN RAISE 'the trigger % gives up', 'itself'; END IF;
    RETURN CASE WHEN NEW.code IS DISTINCT FROM 'leave' THEN NEW END;
END $$;
CREATE TRIGGER acts BEFORE INSERT ON ads.typed FOR EACH ROW EXECUTE FUNCTION ads.act();
CREATE TABLE ads.known (code text PRIMARY KEY);
INSERT INTO ads.known VALUES ('known');
ALTER TABLE ads.typed ADD COLUMN asked text GENERATED ALWAYS AS (CASE WHEN code IN ('known', 'alien') THEN code END) STORED
    REFERENCES ads.known;
CREATE VIEW ads.typed_shown AS
SELECT id::text, item::text, md5(s) AS s, b::text, i2::text, i4::text, i8::text, f4::text, f8::text, d::text, n::text, e::text,
       (t AT TIME ZONE 'UTC')::text AS t, day::text, tags::text, lat::text, name, doc::text, u::text, code,
       kafka_topic_id, kafka_partition, kafka_offset, tideline_batch
FROM ads.typed;
"""
)
LINES = (
    """\
CREATE SCHEMA IF NOT EXISTS ads;
CREATE TABLE ads.lines (
    value text,
    k text,"""
    + COORDINATES.format(item="")
    + """\
CREATE INDEX ON ads.lines (k);
CREATE VIEW ads.lines_shown AS
SELECT octet_length(value)::text AS length, md5(value) AS digest, k, kafka_topic_id, kafka_partition, kafka_offset, tideline_batch FROM ads.lines;
"""
)
BLOBS = (
    "CREATE SCHEMA IF NOT EXISTS ads;\nCREATE TABLE ads.blobs (\n    value bytea,"
    + COORDINATES.format(item="")
    + """\
CREATE VIEW ads.blobs_shown AS
SELECT octet_length(value)::text AS length, md5(value) AS digest, kafka_topic_id, kafka_partition, kafka_offset, tideline_batch FROM ads.blobs;
"""
)
TYPED_SHOWN = tuple(
    "id item s b i2 i4 i8 f4 f8 d n e t day tags lat name doc u code".split()  # noqa: SIM905 - in the order of the view
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """One pipeline, and the fates that it gives to records."""

    name: str
    target: str
    shown: tuple[str, ...]
    """Columns of the view through which the checker reads the output. All are text, because in Python `-0.0` equals `0.0`."""
    value_format: str
    columns: Mapping[str, str] = field(default_factory=dict)
    transform: str = ""
    item: str | None = None

    @property
    def table(self) -> str:
        return f"ads.{self.name}"

    @property
    def view(self) -> str:
        return f"ads.{self.name}_shown"

    def fate(self, case: Case) -> Fate:
        """Return the expected fate of a record in this pipeline."""
        if self.value_format == "json":
            return case.typed
        if case.value is None:
            return TOMBSTONE
        row = {"length": str(len(case.value)), "digest": md5(case.value, usedforsecurity=False).hexdigest()}
        if self.value_format == "bytes":
            return Written((row,))
        if case.text is not None:
            return case.text
        return Written(({**row, "k": None if case.key is None else case.key.decode()},))

    def values(self, row: Shown) -> tuple[str | None, ...]:
        """Return one row in the form that the checker reads."""
        return tuple(row[name] for name in self.shown)


PIPELINES = (
    Declared(
        name="typed",
        target=TYPED,
        shown=TYPED_SHOWN,
        value_format="json",
        columns=COLUMNS,
        transform=BY_ACT,
        item="item",
    ),
    Declared(name="lines", target=LINES, shown=("length", "digest", "k"), value_format="text", transform=WITH_KEY),
    Declared(name="blobs", target=BLOBS, shown=("length", "digest"), value_format="bytes", transform=FRAMED),
)
