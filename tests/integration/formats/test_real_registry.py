"""The registry of the tests answers as a real one does: Apicurio, which the local stack starts."""

import json

import httpx
import pytest

from servers.schema_registry import SchemaRegistry
from tideline import settings
from tideline.declaration.registry import RegistryAccess
from tideline.domain.schemas import Schema
from tideline.errors import FatalError
from tideline.registry.client import RegistryClient
from tideline_stack.registry import LocalRegistry

FIRST = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
LATER = FIRST | {"fields": [*FIRST["fields"], {"name": "note", "type": ["null", "string"], "default": None}]}
BROKEN = FIRST | {"fields": [{"name": "id", "type": "string"}]}
MONEY = 'syntax = "proto3";\npackage shop;\nmessage Money { int64 cents = 1; }\n'
PRICED = 'syntax = "proto3";\npackage shop;\nimport "money.proto";\nmessage Priced { Money price = 1; }\n'


@pytest.fixture(scope="module")
def apicurio(tmp_path_factory):
    registry = LocalRegistry(tmp_path_factory.mktemp("registry"), settings.PROJECT / ".local" / "jars" / "registry")
    registry.launch()
    try:
        registry.wait()
        yield registry
    finally:
        registry.stop()


@pytest.fixture(params=["real", "ours"])
def url(request):
    """Return the address of a registry: the real one, then that of the tests."""
    if request.param == "real":
        yield request.getfixturevalue("apicurio").url
        return
    with SchemaRegistry() as registry:
        registry.refuses = lambda _subject, text: text == avro(BROKEN).text
        yield registry.url


@pytest.fixture
def client(url):
    access = RegistryAccess(pipeline="p", name="default", urls=(url,), timeout_seconds=30)
    with RegistryClient(access) as session:
        yield session


def avro(schema):
    return Schema(kind="AVRO", text=json.dumps(schema))


def test_what_it_has_not_is_unknown(client):
    assert client.schema(987_654) is None
    assert client.newest("nothing-value") is None
    assert client.id_of("nothing-value", avro(FIRST)) is None


def test_a_schema_keeps_its_id_and_the_newest_is_the_last(client):
    first = client.register("orders-value", avro(FIRST))
    assert client.register("orders-value", avro(FIRST)) == first == client.id_of("orders-value", avro(FIRST))
    assert client.id_of("orders-value", avro(LATER)) is None
    later = client.register("orders-value", avro(LATER))
    assert later != first
    number, schema = client.newest("orders-value")
    assert (number, json.loads(schema.text)) == (later, LATER)
    found = client.schema(first)
    assert (found.kind, json.loads(found.text)) == ("AVRO", FIRST)
    assert "orders-value" in found.subjects


def test_a_schema_that_is_not_compatible_is_refused(client):
    client.register("carts-value", avro(FIRST))
    assert client.is_compatible("carts-value", avro(LATER))
    assert not client.is_compatible("carts-value", avro(BROKEN))
    with pytest.raises(FatalError, match="refuses the schema for /subjects/carts-value/versions"):
        client.register("carts-value", avro(BROKEN))


def test_a_schema_of_protobuf_comes_with_those_that_it_imports(client, url):
    client.register("money", Schema(kind="PROTOBUF", text=MONEY))
    references = [{"name": "money.proto", "subject": "money", "version": 1}]
    body = {"schema": PRICED, "schemaType": "PROTOBUF", "references": references}
    number = httpx.post(f"{url}/subjects/priced-value/versions", json=body, timeout=30).json()["id"]
    found = client.schema(number)
    assert found.kind == "PROTOBUF"
    assert [(one.name, "Money" in one.text) for one in found.references] == [("money.proto", True)]
    assert client.newest("priced-value") == (number, found)


def test_schemas_and_their_ids_are_there_after_a_kill(tmp_path):
    registry = LocalRegistry(tmp_path / "registry", settings.PROJECT / ".local" / "jars" / "registry")
    access = RegistryAccess(pipeline="p", name="default", urls=(registry.url,), timeout_seconds=30)
    numbers = []
    for _ in range(2):
        registry.launch()
        try:
            registry.wait()
            with RegistryClient(access) as session:
                numbers += [session.register("orders-value", avro(FIRST)), session.newest("orders-value")[0]]
        finally:
            registry.child.stop(patience=0)
    assert len({*numbers}) == 1
