"""A schema of Protobuf, records of it as Google's library writes them, and the rows that they hold."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import orjson
from google.protobuf import json_format, message_factory
from google.protobuf.message import Message

from tideline.formats.protobuf.compiling import Messages, compiled

SCHEMA = Path(__file__).with_name("order.proto").read_text()
NAME = "orders.Envelope.Order"
COLUMNS = {
    "id": "bigint",
    "name": "string",
    "kind": "string",
    "price": "decimal(22,4)",
    "at": "timestamp",
    "share": "double",
    "paid": "boolean",
    "lines": "array<struct<n: int, sku: string, kind: string>>",
    "by": "struct<sku: string, not_there: int>",
    "card": "bigint",
    "barter": "struct<sku: string>",
    "weight": "bigint",
    "rates": "array<struct<key: int, value: double>>",
    "big": "decimal(20,0)",
    "steps": "array<bigint>",
    "was": "string",
    "not_there": "string",
}


def message_class(schema: str = SCHEMA, name: str = NAME) -> type[Message]:
    """Return the class that Google's library makes of a message."""
    made: type[Message] = message_factory.GetMessageClass(Messages(compiled(schema)).named(name))
    return made


_ORDER = message_class()


def drawn(rng: Random) -> tuple[bytes, Mapping[str, Any]]:
    """Draw a record, and the row that it holds."""
    us = rng.randrange(-6 * 10**16, 10**15)
    moment = rng.choice([None, datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)])
    kinds: dict[int | None, str | None] = {0: "NEW", 7: "OLD", None: None}
    price = rng.choice([None, "", "-0.5", "123456789012345678.1234", "7", ".5000000"])
    lines: list[dict[str, Any]] = [
        {"sku": rng.choice(["", "sku-é"]), "n": rng.choice([None, 0, -(2**31)]), "kind": rng.choice([0, 7])}
        for _ in range(rng.choice([0, 1, 3]))
    ]
    plain: dict[str, Any] = {
        "id": rng.choice([0, -1, 2**63 - 1, -(2**63), rng.randrange(10**6)]),
        "name": rng.choice([None, "", "é\U0001f600" * rng.randrange(60)]),
        "share": rng.randrange(1 << 20) / 8,
        "paid": rng.random() < 0.5,
        "big": rng.choice([0, 2**64 - 1]),
        "steps": [rng.randrange(-(2**63), 2**63) for _ in range(rng.choice([0, 1, 90]))],
        "by": rng.choice([None, {"sku": ""}, {"sku": "ada"}]),
    }
    how: dict[str, Any] = rng.choice([{}, {"card": 0}, {"card": -7}, {"voucher": "x"}, {"barter": {"sku": "eggs"}}])
    rates = {rng.randrange(-5, 5): rng.random() for _ in range(rng.choice([0, 1]))}
    weight, kind, was = rng.choice([None, 0, -5]), rng.choice([0, 7]), rng.choice([None, 0, 7])
    record = _ORDER(
        **plain,
        **how,
        at=moment and {"seconds": us // 10**6, "nanos": us % 10**6 * 1_000},
        lines=[{**line, "whole": {"id": 5}} for line in lines],
        read_over={"a": {"sku": "b"}},
        price=price,
        hash=rng.randbytes(3),
        rates=rates,
        weight=None if weight is None else {"value": weight},
        kind=kind,
        was=was,
    )
    row = {
        **plain,
        "by": plain["by"] and {**plain["by"], "not_there": None},
        "kind": kinds[kind],
        "was": kinds[was],
        "price": Decimal(price).quantize(Decimal("0.0001")) if price else None,
        "at": moment,
        "lines": [{**line, "kind": kinds[line["kind"]]} for line in lines],
        "card": how.get("card"),
        "barter": how.get("barter"),
        "weight": weight,
        "big": Decimal(plain["big"]),
        "rates": [{"key": key, "value": value} for key, value in rates.items()],
        "not_there": None,
    }
    return record.SerializeToString(), {name: row[name] for name in COLUMNS}


REST_COLUMNS = {"id": "bigint", "lines": "json", "by": "json", "not_there": "json"}


def drawn_with_rest(rng: Random) -> tuple[bytes, Mapping[str, Any]]:
    """Draw a record, and its row with some columns of JSON and one for all other fields, as Google's library says them."""
    record, row = drawn(rng)
    others = json_format.MessageToDict(_ORDER.FromString(record), preserving_proto_field_name=True)
    # Google says whole numbers of 64 bits as text.
    others |= {name: int(others[name]) for name in ("weight", "big") if name in others}
    others |= {"steps": [*map(int, others["steps"])]} if "steps" in others else {}
    lines = [{**line, "whole": {"id": 5}} for line in others.pop("lines", [])]
    by = others.pop("by", None)
    others.pop("id", None)
    text = {"lines": lines, "by": by, "rest": others or None}
    said = {name: None if one is None else orjson.dumps(one).decode() for name, one in text.items()}
    found = {"id": row["id"], "not_there": None, **said}
    return record, {name: found[name] for name in (*REST_COLUMNS, "rest")}
