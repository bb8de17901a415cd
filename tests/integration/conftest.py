"""The servers that the tests share."""

from servers.fixtures import (
    admin,
    broker,
    certificates,
    cli,
    ledger,
    ledger_template,
    ledger_url,
    loading,
    postgres,
    spark,
    topic,
)

__all__ = [
    "admin",
    "broker",
    "certificates",
    "cli",
    "ledger",
    "ledger_template",
    "ledger_url",
    "loading",
    "postgres",
    "spark",
    "topic",
]
