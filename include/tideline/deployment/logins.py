"""The logins in Postgres of a local server: one for each kind of process, as `tideline migrate --roles` makes them, and one for Airflow.

No process of Airflow or Spark gets the password of the administrator. The ledger's owner has no password: the administrator acts as it. Called by the
stack, by the containers and by tests.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from psycopg2.extensions import parse_dsn
from psycopg2.sql import SQL, Composable, Identifier, Literal

from tideline import settings
from tideline.deployment import secret
from tideline.ledger import roles
from tideline.ledger.connection import Ledger
from tideline.ledger.migrate import migrate
from tideline.ledger.rights import GRANTED
from tideline.statements import statement

_VARIABLES = {
    "operator": settings.LEDGER_URL,
    "writer": settings.WRITER_URL,
    "stager": settings.STAGER_URL,
    "reader": settings.READER_URL,
}
Passwords = Callable[[str], str]
"""Returns the password of a role."""


def kept(folder: Path, role: str) -> str:
    """Return the password of a role from a file that only its owner can read; create it on first use."""
    return secret.keep(folder / role / "password")


def of_ledger(admin: str, passwords: Passwords, *, prefix: str = roles.PREFIX) -> dict[str, str]:
    """Bring the ledger of a database up to date, and return the variables with the URL of each role. They hold passwords.

    Output tables belong to the writer, which may create schemas. In a database of an older version they belong to the administrator: they are handed
    over. The ledger keeps the owner that it has.

    Args:
        admin: The libpq URI of the database for a superuser.
        passwords: Returns the password of a role.
        prefix: What the names of the roles begin with.

    Raises:
        FatalError: The ledger cannot be migrated.
    """
    with Ledger(admin, actor="local stack") as session:
        wanted = roles.setup(session, prefix)
        roles.prepare(session, wanted)
        migrate(session)
        roles.grant(session, wanted.names)
    names = {duty: wanted.names[duty] for duty in GRANTED}
    # Another session: the first acts as the owner.
    with Ledger(admin, actor="local stack") as session, session.transaction():
        for name in names.values():
            _run(session, "set_password", role=Identifier(name), password=Literal(passwords(name)))
        _hand_over(session, names["writer"])
        for schema in _rows(session, "list_schemas_of", role=names["writer"]):
            _run(session, "grant_output", schema=Identifier(schema["name"]), operator=Identifier(names["operator"]))
        _run(session, "grant_creation", **_identifiers(session, writer=names["writer"], operator=names["operator"]))
    return {variable: _url(admin, names[duty], passwords(names[duty])) for duty, variable in _VARIABLES.items()}


def of_airflow(admin: str, passwords: Passwords, role: str = "airflow") -> str:
    """Give a database to a role of its own, which is created first; return the URL, which holds a password.

    Args:
        admin: The libpq URI of the database for a superuser.
        passwords: Returns the password of a role.
        role: The name of the role.
    """
    with Ledger(admin, actor="local stack") as session, session.transaction():
        if not session.rows("list_existing_roles", names=[role]):
            session.run_sql(SQL(statement("tideline.ledger", "create_role")).format(role=Identifier(role)), {})
        _run(session, "set_password", role=Identifier(role), password=Literal(passwords(role)))
        _hand_over(session, role)
        _run(session, "give_database", **_identifiers(session, role=role))
    return _url(admin, role, passwords(role))


def _hand_over(session: Ledger, role: str) -> None:
    """Make a role the owner of what belongs to the administrator, except the ledger and what is Postgres's own."""
    for found in _rows(session, "list_owned"):
        name = Identifier(found["schema"], found["name"]) if found["name"] else Identifier(found["schema"])
        _run(session, "hand_over", kind=SQL(found["kind"]), object=name, role=Identifier(role))


def _identifiers(session: Ledger, **names: str) -> Mapping[str, Composable]:
    database = str(session.rows("view_role_setup")[0]["database_name"])
    return {name: Identifier(value) for name, value in {**names, "database": database}.items()}


def _run(session: Ledger, name: str, **names: Composable) -> None:
    session.run_sql(SQL(statement("tideline.deployment", name)).format(**names), {})


def _rows(session: Ledger, name: str, **parameters: str) -> list[Mapping[str, str]]:
    query = SQL(statement("tideline.deployment", name))
    found: list[Mapping[str, str]] = session.rows_of(query, parameters)  # type: ignore[assignment]
    return found


def _url(admin: str, role: str, password: str) -> str:
    place = parse_dsn(admin)
    return f"postgresql://{role}:{password}@{place['host']}:{place['port']}/{place['dbname']}"
