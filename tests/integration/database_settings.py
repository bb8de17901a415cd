"""Settings that sessions of a database begin with."""

import psycopg2
from psycopg2.sql import SQL, Identifier


def alter(url: str, **settings: str) -> None:
    """Set what sessions of the database begin with, from now on."""
    connection = psycopg2.connect(url)
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute("SET default_transaction_read_only = off")
        database = Identifier(connection.info.dbname)
        for name, value in settings.items():
            cursor.execute(SQL("ALTER DATABASE {} SET {} = %s").format(database, Identifier(name)), (value,))
    connection.close()
