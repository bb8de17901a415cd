"""Give executors the right to fill a staging table, where they have a role of their own."""

from psycopg2.sql import SQL, Identifier

from tideline.ledger.connection import Ledger, statement


def let_stager_in(ledger: Ledger, table: str) -> None:
    """Let the role of the executors, if it is another one, fill a staging table that this session has created in its transaction."""
    for row in ledger.rows("find_stager"):
        query = SQL(statement("tideline.ledger", "sql/queries/let_stager_in.sql"))
        names = {"staging": Identifier("tideline_staging", table), "stager": Identifier(row["name"])}
        ledger.run_sql(query.format(**names), {})
