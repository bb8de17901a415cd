"""No part of a secret is in any output, whatever characters it has and wherever it was put by mistake."""

import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tideline import settings as surroundings
from tideline.declaration import pipelines
from tideline.domain.states import BatchKind
from tideline.errors import FatalError, TidelineError
from tideline.kafka.connection import Connection
from tideline.kafka.settings import client_settings, spark_settings
from tideline.ledger.address import fault
from tideline.ledger.attempts import Attempt
from tideline.ledger.connection import Ledger
from tideline.redaction import PART, WITHHELD, without
from tideline.reports.dag_runs import airflow
from tideline.sinks.sink import StagingPlace
from tideline.spark_jobs.heartbeat import Heartbeat
from tideline.spark_jobs.readers.kept_rejects import KeptRecords

# Each part of it has letters that no message has in this order.
SECRETS = st.lists(st.sampled_from("QXZJV7"), min_size=3, max_size=6).flatmap(
    lambda letters: st.lists(
        st.sampled_from([*"%/@?#:&= '\"{}[]*!,|>-+\\~$;é", "%41", "\t"]), min_size=len(letters), max_size=len(letters)
    ).map(lambda odd: "".join(a + b for a, b in zip(letters, odd, strict=True)))
)
FEW = settings(max_examples=60)


def parts(secret: str) -> set[str]:
    return {secret[at : at + PART] for at in range(len(secret) - PART + 1)}


def shown(secret: str, text: str) -> list[str]:
    """Return the parts of a secret that are in a text."""
    return sorted(part for part in parts(secret) if part in text)


@contextmanager
def silent_about(secret: str, *, fails: bool = True) -> Iterator[None]:
    """Expect a TidelineError, and check that neither it nor its traceback with all causes shows a part of the secret."""
    try:
        yield
    except TidelineError as error:
        said = "".join(traceback.format_exception(error)) + repr(error) + str(error.__dict__)
        assert shown(secret, said) == []
    else:
        assert not fails, "nothing was refused"


@FEW
@given(SECRETS)
def test_a_ledgers_address_is_never_quoted(secret):
    for address in (
        f"postgresql://user:{secret}@127.0.0.1:1/db",
        f"postgresql://{secret}@127.0.0.1:1/{secret}",
        f"postgresql://127.0.0.1:{secret}/db",
        f"postgresql://127.0.0.1:1/db?password={secret}",
        f"postgresql://127.0.0.1:1/db?{secret}",
        f"host=127.0.0.1 port=1 password={secret} dbname=db",
        secret,
    ):
        if fault(address) is None and not address.startswith("postgresql://user"):
            continue  # at this place it is not a secret: a user or a database
        with silent_about(secret):
            Ledger(address, actor="test")


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("postgresql://me:s3cr%tpw@db:5432/w", "a % that is not followed by two hexadecimal digits"),
        ("postgresql://me:s3cr@tpw@db:5432/w", "an @ or a / too many"),
        ("postgresql://me:s3cr/tpw@db:5432/w", "an @ or a / too many"),
        ("postgresql://me:12/34@db:5432/w", "an @ or a / too many"),
        ("postgresql://me:pw@x?sslmode=y@db/w", "an @ or a / too many"),
        ("postgresql://me:pw@db:5432/w/x", "a / too many"),
        ("postgresql://me:pw@db:54e2/w", "its host or port is not valid"),
        ("postgresql://me:pw@db:70000/w", "its port is not a number from 1 to 65535"),
        ("postgresql://me:pw@db/w?sslmod=require", "its options after ? are not those of libpq"),
        ("postgresql://me:pw@db/w\n", "a line break"),
        ("mysql://me:pw@db/w", "does not begin with postgresql://"),
        ("secret", "not a libpq URI"),
        ("host=db password=s3cr et", "not a libpq URI"),
    ],
)
def test_the_mistake_in_a_wrong_address_is_named(address, said):
    assert said in fault(address)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:p%25%40%2Fw@db:5432/w?sslmode=require&sslrootcert=/etc/ca.pem",
        "postgres://me:p?w#:x@a:1,b:2/w",
        "postgresql://me@[::1]:5432/w",
        "postgresql://me:pw@%2Ftmp%2Frun/w",
        "postgresql:///w?host=/tmp/run&password=pw",
        "host=/tmp/run dbname=w password='s3cr et'",
    ],
)
def test_an_address_that_libpq_reads_as_it_was_meant_is_right(address):
    assert fault(address) is None


PLACES = (
    "    sasl_password: {}",
    "    sasl_password: {{env: {}}}",
    "    sasl_password: [{}]",
    "    sasl_password: {{{}}}",
    "    sasl_password:\n      {}: 1",
    "    ssl_key_password: {}",
    "    sasl_mechanism: {}",
    "    protocol: {}",
    "    {}: 1",
    "    {}",
    "    passwort: {}",
    "    password: '{}'",
    '    password: "{}"',
)


@settings(max_examples=120)
@given(secret=SECRETS, place=st.sampled_from(PLACES))
def test_a_declaration_never_shows_a_secret_that_was_put_into_it(tmp_path_factory, secret, place):
    folder = tmp_path_factory.getbasetemp() / "orders"
    folder.mkdir(exist_ok=True)
    (folder / "target.sql").touch()
    text = "description: x\nsource:\n  bootstrap_servers: b:1\n  topics: [t]\n  value: {format: text}\n  security:\n"
    (folder / "pipeline.yaml").write_text(f"{text}{place.format(secret)}\nsink: {{table: a.b}}\n", encoding="utf-8")
    with silent_about(secret, fails=False):
        pipelines.load(folder)


SECURED = {
    "protocol": "SASL_SSL",
    "sasl_mechanism": "PLAIN",
    "sasl_username": {"env": "TEST_SECRET"},
    "sasl_password": {"env": "TEST_SECRET"},
}


@FEW
@given(SECRETS)
def test_a_variable_that_a_declaration_names_is_never_quoted(secret):
    def source(servers="b:1", **security):
        raw = {"bootstrap_servers": servers, "topics": ["t"], "value": {"format": "text"}, "security": security}
        return pipelines.Pipeline.model_fields["source"].annotation.model_validate(raw, context="orders")

    with patch.dict(os.environ, {"TEST_SECRET": secret}):
        with silent_about(secret):
            client_settings(source({"env": "TEST_SECRET"}).brokers)
        with silent_about(secret):
            client_settings(source(protocol={"env": "TEST_SECRET"}).brokers)
        with silent_about(secret):
            spark_settings(source(protocol="SSL", ssl_ca_location={"env": "TEST_SECRET"}))
        with silent_about(secret):
            Connection(source(protocol="SSL", ssl_ca_location={"env": "TEST_SECRET"}).brokers)
        secured = source(**SECURED)
        assert shown(secret, repr(secured) + str(secured)) == []
        assert secret in secured.brokers.secrets()


@FEW
@given(SECRETS)
def test_airflows_address_is_never_quoted_when_it_holds_a_password(secret):
    variables = {"TIDELINE_AIRFLOW_USERNAME": "me", "TIDELINE_AIRFLOW_PASSWORD": secret}
    for address in (f"http://me:{secret}@127.0.0.1:1", f"http://127.0.0.1:1/?token={secret}", f"127.0.0.1:{secret}"):
        with patch.dict(os.environ, {**variables, "TIDELINE_AIRFLOW_URL": address}), silent_about(secret):
            surroundings.airflow()


@settings(max_examples=5)
@given(SECRETS)
def test_an_airflow_that_does_not_answer_is_reported_without_its_password(secret):
    variables = {
        "TIDELINE_AIRFLOW_URL": "http://127.0.0.1:1",
        "TIDELINE_AIRFLOW_USERNAME": "me",
        "TIDELINE_AIRFLOW_PASSWORD": secret,
    }
    with patch.dict(os.environ, variables), silent_about(secret), airflow():
        pass


def test_a_variable_of_other_bytes_is_refused_and_not_quoted():
    with (
        patch.dict(os.environ, {"TIDELINE_LEDGER_URL": "postgresql://me:QXZJ\udcff@db/w"}),
        pytest.raises(FatalError, match="TIDELINE_LEDGER_URL holds bytes that are no UTF-8") as caught,
    ):
        surroundings.ledger_url()
    assert shown("QXZJ", str(caught.value)) == []


def test_what_goes_to_executors_shows_no_address():
    address = "postgresql://me:QXZJ@db/w"
    attempt = Attempt(
        pipeline="ads",
        batch_id=1,
        identity=UUID(int=2),
        kind=BatchKind.REDRIVE,
        fence=1,
        attempt=UUID(int=1),
        attempt_id=1,
        ranges=(),
    )
    held = [
        StagingPlace(ledger_url=address, attempt=UUID(int=1), streams={}),
        KeptRecords(ledger_url=address, attempt=attempt, slices=()),
        Heartbeat(address, UUID(int=1), print),
    ]
    assert shown("QXZJ", repr(held)) == []


def test_words_of_others_are_shown_unless_a_part_of_a_secret_is_in_them():
    assert without("failed to open /etc/ca.pem", ["hunter2", "abc"]) == "failed to open /etc/ca.pem"
    assert without("failed for unter", ["hunter2"]) == WITHHELD
