"""Databases whose sessions begin with settings that change what statements mean, read and show: the same rows, states and commands."""

import json
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import pytest

import records
from given_ledger import ledgers
from given_ledger.ledgers import alter, query
from loads import sessions, upserts
from servers.cli_process import Cli
from servers.poolers import Pooler
from test_sink import target
from test_sink_types import FITTING, in_json, target_with_types
from tideline.errors import FatalError
from tideline.ledger.connection import Ledger
from tideline.records.task_sessions import opened

ODD = {
    "quote_all_identifiers": "on",
    "DateStyle": "German",
    "TimeZone": "America/St_Johns",
    "IntervalStyle": "sql_standard",
    "bytea_output": "escape",
    "standard_conforming_strings": "off",
    "escape_string_warning": "off",
    "extra_float_digits": "-15",
    "search_path": "",
    "array_nulls": "off",
    "transform_null_equals": "on",
    "client_encoding": "LATIN1",
}
DROPPED = ("standard_conforming_strings", "quote_all_identifiers")
"""Settings that a session has to begin with."""
HARSH = {
    "default_transaction_isolation": "serializable",
    "default_transaction_read_only": "on",
    "statement_timeout": "700ms",
    "transaction_timeout": "2s",
    "idle_in_transaction_session_timeout": "100ms",
    "idle_session_timeout": "500ms",
    "lock_timeout": "50ms",
}
SLOW = """
CREATE FUNCTION ads.wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(1.2); RETURN NULL; END $$;
CREATE TRIGGER slow AFTER INSERT ON ads.output EXECUTE FUNCTION ads.wait();
CREATE CONSTRAINT TRIGGER slow_at_the_end AFTER INSERT ON ads.output DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.kafka_offset = 0) EXECUTE FUNCTION ads.wait();
"""


@pytest.fixture
def odd(loading, postgres, ledger_template, monkeypatch):
    """Provide the same pipelines on another database, with odd settings."""
    with ledgers.copy_of(postgres, ledger_template) as url:
        alter(url, **ODD)
        yield replace(loading, url=url)


def everything_types(loading, topic):
    loading.declare(
        topic,
        columns={f"c{n}": kind for n, (kind, *_) in enumerate(FITTING)},
        target=target_with_types(", ".join(f"c{n} {column}" for n, (_, column, _) in enumerate(FITTING))),
    )


def appended(loading, topic):
    everything_types(loading, topic)
    loading.run()


def upserted(loading, topic):
    upserts.declare(loading, topic)
    loading.run()


def folded(loading, topic):
    sessions.declare(loading, topic)
    loading.run()


def fill_types(loading, topic):
    rows = [[case[2][n] for case in FITTING] for n in (0, 1)] + [[None] * len(FITTING)]
    values = [json.dumps({f"c{n}": in_json(v) for n, v in enumerate(row)}) for row in rows]
    records.produce(loading.bootstrap, topic, [*values, "no JSON: \\ 😀"])


def fill_upserts(loading, topic):
    upserts.send(loading, topic, [(1, "a"), (2, "b \\ 'c' 😀"), (1, None), (3, "d")])


def fill_clicks(loading, topic):
    sessions.send(
        loading, topic, [(0, "ada", 0, 1.5), (0, "bob \\ 😀", 1, 2.25), (0, "ada", 90, None), (0, "", None, 3)]
    )


CASES = [(fill_types, appended), (fill_upserts, upserted), (fill_clicks, folded)]


def found(loading):
    """Return rows, states, rejects and counts, as a session of the ledger sees them, and what commands show."""
    shown = {}
    with loading.ledger() as session:
        for name, sql in {
            "rows": "SELECT t::text FROM ads.output t ORDER BY kafka_partition, kafka_offset",
            "states": "SELECT key, value::text, expires_at, kafka_offset FROM tideline.state ORDER BY key",
            "rejects": "SELECT kafka_offset, step, reason, value::text, key::text FROM tideline.reject ORDER BY 1",
            "counts": "SELECT offsets::text, n_read, n_written, n_rejected, n_filtered, n_gap FROM tideline.batch_range",
            "heads": "SELECT partition, next_offset, state::text FROM tideline.stream",
        }.items():
            shown[name] = query(session, sql)
    cli = Cli(
        folder=loading.folder.parent,
        variables={"TIDELINE_LEDGER_URL": loading.url, "TIDELINE_KAFKA": loading.bootstrap},
    )
    name = loading.pipeline.name
    streams = cli.json("streams", name)["streams"]
    shown["streams"] = [(one["partition"], one["head"], one["state"]) for one in streams]
    shown["reject"] = [(one["kafka_offset"], one["reason"]) for one in cli.json("rejects", name)["rejects"]]
    shown["doctor"] = [
        (check["check"], check["verdict"])
        for check in cli.json("doctor", name)["checks"]
        if check["check"] != "sessions"
    ]
    return shown


@pytest.mark.parametrize(("fill", "load"), CASES)
def test_a_pipeline_loads_the_same_from_a_database_with_other_settings(loading, odd, monkeypatch, fill, load):
    topic = records.create(loading.bootstrap)
    fill(loading, topic)
    load(loading, topic)
    plain = found(loading)
    assert plain["rows"]
    monkeypatch.setenv("TIDELINE_LEDGER_URL", odd.url)
    load(odd, topic)
    assert found(odd) == plain


def test_a_pipeline_loads_from_a_database_with_short_time_outs_and_read_only(loading, ledger_url):
    topic = records.create(loading.bootstrap)
    records.produce(loading.bootstrap, topic, map(records.record, range(10)))
    loading.declare(topic, target=target("id bigint, name text, price numeric(12, 4)") + SLOW)
    alter(ledger_url, **HARSH)
    loading.run()
    with loading.ledger() as session:
        assert query(session, "SELECT count(*) FROM ads.output") == [(10,)]


@pytest.mark.parametrize("way", ["direct", "pooler"])
def test_sessions_have_the_settings_that_statements_depend_on(ledger_url, way, monkeypatch):
    of_session = {name: value for name, value in ODD.items() if way == "direct" or name not in DROPPED}
    alter(ledger_url, **of_session)
    monkeypatch.setenv("PGDATESTYLE", "German")
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    text = r"\ 'quoted' \' 😀"
    with Pooler(ledger_url) if way == "pooler" else nullcontext() as pooler:
        url = pooler.url if pooler else ledger_url
        with Ledger(url, actor=text) as session:
            [found] = query(session, "SELECT %s, current_setting('tideline.actor'), %s::bytea", text, b"\\\0")
            assert (*found[:2], bytes(found[2])) == (text, text, b"\\\0")
            assert query(
                session, r"SELECT current_setting('DateStyle'), now()::text ~ '^\d{4}-.*[+]00$', format_type(25, -1)"
            ) == [("ISO, MDY", True, "text")]
        with opened(url) as session, session.cursor() as cursor:
            cursor.execute(
                "SELECT '😀'::text, current_setting('client_encoding'), (0.1::float8 * 3)::text, format_type(25, -1)"
            )
            assert cursor.fetchall() == [("😀", "UTF8", "0.30000000000000004", "text")]


@pytest.mark.parametrize(
    ("setting", "value", "session"),
    [
        ("standard_conforming_strings", "off", partial(Ledger, actor="test")),
        ("quote_all_identifiers", "on", opened),
    ],
)
def test_a_pooler_that_drops_what_a_driver_goes_by_is_refused_by_name(ledger_url, setting, value, session):
    """A driver looks at it once, when it has connected: a statement comes too late."""
    alter(ledger_url, **{setting: value})
    with Pooler(ledger_url) as pooler, pytest.raises(FatalError, match=f"dropped the setting {setting}") as caught:
        session(pooler.url)
    assert f"RESET {setting}" in caught.value.next_step
    session(ledger_url).close()
