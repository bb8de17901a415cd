"""The client of a schema registry: an id is unknown only if a registry says so in its own words."""

import json

import pytest

from servers.schema_registry import SchemaRegistry
from tideline.declaration.registry import Registry, RegistryAccess
from tideline.deployment import secret
from tideline.domain.schemas import Schema
from tideline.errors import FatalError, RetryableError
from tideline.registry.client import RegistryClient

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
MONEY = {"type": "record", "name": "shop.Money", "fields": [{"name": "cents", "type": "long"}]}
PRICE = {"type": "record", "name": "shop.Price", "fields": [{"name": "net", "type": "shop.Money"}]}
PRICED = {"type": "record", "name": "shop.Order", "fields": [{"name": "price", "type": "shop.Price"}]}
SECRET, OTHER = secret.marked("colon:in-it"), secret.marked("wrong")
NOT_OPEN = "http://127.0.0.1:1"


@pytest.fixture
def registry():
    with SchemaRegistry() as server:
        yield server


def access(*urls, **more):
    return RegistryAccess(pipeline="p", name="default", urls=urls, timeout_seconds=2, **more)


def schema_of(given, schema_id):
    with RegistryClient(given) as client:
        return client.schema(schema_id)


def test_a_schema_comes_with_its_kind_and_its_subjects(registry):
    schema_id = registry.register("orders-value", ORDER)
    found = schema_of(access(registry.url), schema_id)
    assert (found.kind, json.loads(found.text), found.subjects) == ("AVRO", ORDER, ("orders-value",))
    other = registry.register("carts-value", "{}", kind="JSON")
    assert schema_of(access(registry.url + "/"), other).kind == "JSON"


def test_schemas_come_behind_those_that_they_refer_to(registry):
    registry.register("money", MONEY)
    registry.register("price", PRICE, references=[("shop.Money", "money", 1)])
    references = [("shop.Price", "price", 1), ("shop.Money", "money", 1)]
    schema_id = registry.register("orders/value", PRICED, references=references)
    found = schema_of(access(registry.url), schema_id)
    assert [(one.name, json.loads(one.text)) for one in found.references] == [
        ("shop.Money", MONEY),
        ("shop.Price", PRICE),
    ]


def test_references_in_a_circle_are_refused(registry):
    registry.register("a", ORDER, references=[("b", "b", 1)])
    registry.register("b", ORDER, references=[("a", "a", 1)])
    with pytest.raises(FatalError, match="refers to itself"):
        schema_of(access(registry.url), 1)


def test_an_id_that_the_registry_has_not_is_unknown(registry):
    assert schema_of(access(registry.url), 5) is None


@pytest.mark.parametrize(
    ("answer", "error", "said"),
    [
        ((404, b"<html>no such page</html>"), FatalError, "answers 404 in other words"),
        ((404, {"error_code": 404, "message": "HTTP 404 Not Found"}), FatalError, "answers 404 in other words"),
        ((401, {"error_code": 401}), FatalError, "refuses the login with status 401"),
        ((403, b""), FatalError, "refuses the login with status 403"),
        ((500, {"error_code": 50001}), RetryableError, "status 500"),
        ((503, b"busy"), RetryableError, "status 503"),
        ((302, b""), RetryableError, "status 302"),
        ((200, b"<html>please log in</html>"), RetryableError, "status 200"),
        ((200, {"message": "hello"}), FatalError, "expected a schema for schema id 1"),
        ((0, b""), RetryableError, "no address answers"),
    ],
)
def test_whatever_else_is_answered_says_nothing_about_an_id(registry, answer, error, said):
    registry.register("orders-value", ORDER)
    registry.fault = lambda _path: answer
    with pytest.raises(error, match=said) as caught:
        schema_of(access(registry.url), 1)
    assert caught.value.entry == "schema-registry"


def test_a_registry_that_does_not_list_subjects_is_asked_for_schemas_all_the_same(registry):
    registry.register("orders-value", ORDER)
    registry.fault = lambda path: (404, b"") if path.endswith("/versions") else None
    assert schema_of(access(registry.url), 1) == Schema(kind="AVRO", text=json.dumps(ORDER))


def test_the_next_address_is_asked_if_one_does_not_answer(registry):
    registry.register("orders-value", ORDER)
    with SchemaRegistry() as broken:
        broken.fault = lambda _path: (500, b"")
        assert schema_of(access(NOT_OPEN, broken.url, registry.url), 1) is not None
        assert broken.asked
    with pytest.raises(RetryableError, match=r"127\.0\.0\.1:1: ConnectError"):
        schema_of(access(NOT_OPEN), 1)


@pytest.mark.parametrize(
    ("login", "given"),
    [(("ada", SECRET), {"username": "ada", "password": SECRET}), (SECRET, {"token": SECRET})],
    ids=["user", "token"],  # not by their values, which are secrets
)
def test_users_and_tokens_log_in(login, given):
    with SchemaRegistry(login=login) as server:
        server.register("orders-value", ORDER)
        assert schema_of(access(server.url, **given), 1) is not None
        with pytest.raises(FatalError, match="refuses the login") as caught:
            schema_of(access(server.url, token=OTHER), 1)
    assert OTHER not in str(caught.value)
    assert not [value for value in given.values() if value in repr(access(server.url, **given))]


def test_tls_trusts_the_authorities_that_are_declared_and_no_others(certificates):
    with SchemaRegistry(certificates=certificates) as server:
        server.register("orders-value", ORDER)
        trusted = access(server.url, ssl_ca_location=str(certificates.authority))
        assert schema_of(trusted, 1) is not None
        with pytest.raises(RetryableError, match="CERTIFICATE_VERIFY_FAILED"):
            schema_of(access(server.url), 1)


def test_a_certificate_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FatalError, match=r"expected PEM files at the ssl_ keys.*FileNotFoundError"):
        schema_of(access(NOT_OPEN, ssl_ca_location=str(tmp_path / "no.pem")), 1)


def test_addresses_may_come_from_a_variable_and_are_not_shown_if_they_are_none(monkeypatch):
    section = Registry.model_validate({"urls": {"env": "TEST_URLS"}, "token": {"env": "TEST_TOKEN"}})
    monkeypatch.setenv("TEST_URLS", "http://a:8081, https://b.example/registry")
    monkeypatch.setenv("TEST_TOKEN", SECRET)
    given = section.access("p")
    assert (given.urls, given.token) == (("http://a:8081", "https://b.example/registry"), SECRET)
    monkeypatch.setenv("TEST_URLS", f"http://ada:{SECRET}@a:8081")
    with pytest.raises(FatalError, match=r"source\.registry\.urls") as caught:
        section.access("p")
    assert SECRET not in str(caught.value)
