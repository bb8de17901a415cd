"""The servers that the tests share."""

from servers import admin, broker, cli, ledger, ledger_template, ledger_url, loading, postgres, spark, topic

__all__ = ["admin", "broker", "cli", "ledger", "ledger_template", "ledger_url", "loading", "postgres", "spark", "topic"]
