"""The search for secrets finds one in a row of any table, whatever type its column has."""

import psycopg2
import pytest
from psycopg2.extras import Json

from given_topics.topics import produce
from secret_scan import Scan
from servers.cli_process import NAME

MARK = "PLANTED".capitalize() + "Mark"
PLANTED = f'{MARK}p%"a\\s\ns{MARK}'


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("text", f"the password is {PLANTED}"),
        ("text", PLANTED.encode().hex()),
        ("json", Json({"deep": [{"password": PLANTED}]})),
        ("jsonb", Json([PLANTED])),
        ("text[]", ["nothing", PLANTED]),
        ("bytea", PLANTED.encode()),
        ("text", f"{PLANTED} in a text that is stored compressed, and in another table" * 1_000),
    ],
    ids=["text", "hexadecimal", "json", "jsonb", "array", "bytes", "compressed"],
)
def test_a_secret_in_a_column_of_any_type_is_found(ledger_url, kind, value):
    with psycopg2.connect(ledger_url) as connection, connection.cursor() as cursor:
        cursor.execute(f'CREATE TABLE tideline."odd name" (id int, content {kind})')
        cursor.execute('INSERT INTO tideline."odd name" VALUES (1, NULL), (2, %s)', [value])
    connection.close()
    assert list(Scan((MARK,)).database(ledger_url)) == ["table tideline.odd name, 1 rows"]


def test_a_secret_in_the_reason_of_a_decision_is_found_in_the_history(cli, broker, topic):
    produce(broker, topic, 5)
    url = cli.variables["TIDELINE_LEDGER_URL"]
    cli("skip", NAME, f"{topic}/0 [0, 3)", "--reason", f"it is {MARK}")
    assert any(found.startswith("table tideline.event") for found in Scan((MARK,)).database(url))
