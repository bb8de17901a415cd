"""Create the roles in Postgres that processes use, and grant them exactly what `rights` says. Called by `tideline migrate --roles`.

The roles are created by a user who may, often an administrator. Everything on the ledger itself is granted by its owner, so a migration that adds
a table grants the rights on it as well.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from psycopg2.sql import SQL, Composable, Composed, Identifier

from tideline.errors import FatalError
from tideline.ledger import rights
from tideline.ledger.connection import Ledger
from tideline.ledger.rights import DUTIES, GRANTED, Right
from tideline.statements import statement

PREFIX = "tideline_"
"""The roles are tideline_owner, tideline_operator, tideline_writer, tideline_stager and tideline_reader, if no other prefix is chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What has to be there before the ledger's owner can grant anything."""

    prefix: str
    names: Mapping[str, str]
    """The roles by duty."""
    database: str
    missing: Sequence[Composed]
    """Statements that create what is not there yet."""
    allowed: bool
    """Whether the user of the session may run them."""


def setup(ledger: Ledger, prefix: str = PREFIX) -> Setup:
    """Return which roles a ledger gets, and what of them is not there yet. The owner of a ledger that exists stays its owner."""
    with ledger.transaction():
        return _setup(ledger, prefix)


def _setup(ledger: Ledger, prefix: str) -> Setup:
    facts = ledger.rows("view_role_setup")[0]
    names = {duty: f"{prefix}{duty}" for duty in DUTIES} | ({"owner": facts["owner"]} if facts["owner"] else {})
    existing = {row["name"]: row["is_member"] for row in ledger.rows("list_existing_roles", names=list(names.values()))}
    new = [name for name in names.values() if name not in existing]
    on_database = [
        (name, right)
        for duty, name in names.items()
        for right in (
            rights.of_database(duty) if name in new else rights.lacking(ledger, rights.of_database(duty), user=name)
        )
    ]
    creating = [_composed("create_role", role=Identifier(name)) for name in new]
    if facts["creates_roles"] and not existing.get(names["owner"], False) and not facts["is_superuser"]:
        owner, user = Identifier(names["owner"]), Identifier(facts["user_name"])
        creating.append(_composed("join_owner", owner=owner, user=user))
    granting = [_grant(right, name, facts["database_name"]) for name, right in on_database]
    creates = facts["is_superuser"] or facts["creates_roles"] or not creating
    grants = facts["is_superuser"] or facts["owns_database"] or not granting
    return Setup(
        prefix=prefix,
        names=names,
        database=facts["database_name"],
        missing=[*creating, *granting],
        allowed=creates and grants,
    )


def prepare(ledger: Ledger, wanted: Setup) -> None:
    """Create the roles that are missing, and let the session act as the owner of the ledger.

    Raises:
        FatalError: The user may not create roles, or may not grant rights on the database. The error holds the statements for one who may.
    """
    if wanted.missing and not wanted.allowed:
        raise FatalError(
            f"roles are missing in database {wanted.database}, and this user may not create them",
            next_step=f"let an administrator run these statements there, and repeat the command as {wanted.names['owner']}:\n\n"
            + text(ledger, wanted.missing),
            entry="ledger-refuses",
        )
    with ledger.transaction():
        ledger.rows("lock_migrations")
        for one in _setup(ledger, wanted.prefix).missing:  # again: another process may have created them meanwhile
            ledger.run_sql(one, {})
    become_owner(ledger, wanted.names["owner"])


def become_owner(ledger: Ledger, owner: str) -> None:
    """Let the session act as the owner of the ledger, so that what a migration creates belongs to it.

    Raises:
        FatalError: The user of the session is another role.
    """
    with ledger.transaction():
        found = ledger.rows("list_existing_roles", names=[owner])
        if not any(row["is_member"] for row in found):
            user = ledger.rows("view_role_setup")[0]["user_name"]
            raise FatalError(
                f"the ledger belongs to {owner}, and {user} may not act as it",
                next_step=f"set TIDELINE_LEDGER_URL to that of {owner} or of an administrator, for this command only",
                entry="ledger-refuses",
            )
        ledger.run_sql(_composed("become_owner", owner=Identifier(owner)), {})


def owner_of(ledger: Ledger) -> str | None:
    """Return the role that a ledger belongs to; None if there is no ledger."""
    with ledger.transaction():
        owner: str | None = ledger.rows("view_role_setup")[0]["owner"]
    return owner


def recorded(ledger: Ledger) -> dict[str, str]:
    """Return the roles that the ledger was given, by duty; none if there is no ledger, or one user does everything."""
    with ledger.transaction():
        if not ledger.rows("find_table", schema="tideline", table="role"):
            return {}
        return {row["duty"]: row["name"] for row in ledger.rows("list_roles")}


def granting(names: Mapping[str, str]) -> list[Composed]:
    """Return the statements with which the owner grants every right on the ledger, and takes all others."""
    found = [_composed("revoke_public")]
    for duty in GRANTED:
        found.append(_composed("revoke_all", role=Identifier(names[duty])))
        found += [_grant(right, names[duty], "") for right in rights.rights(duty) if right.kind != "DATABASE"]
    return found


def grant(ledger: Ledger, names: Mapping[str, str]) -> None:
    """Grant each role exactly its rights on the ledger, in one transaction. The session acts as the owner of the ledger."""
    with ledger.transaction():
        ledger.rows("lock_migrations")
        for one in granting(names):
            ledger.run_sql(one, {})
        ledger.run("record_roles", duties=list(names), names=list(names.values()))


def text(ledger: Ledger, statements: Sequence[Composable]) -> str:
    """Return statements as a text to run by hand."""
    return "\n".join(
        line
        for one in statements
        for line in one.as_string(ledger.connection).splitlines()
        if line and not line.startswith("--")
    )


def _grant(right: Right, role: str, database: str) -> Composed:
    objects: dict[str, Composable] = {
        "DATABASE": Identifier(database),
        "FUNCTION": SQL(right.name),
        "SCHEMA": Identifier(right.name),
        "TABLE": Identifier(*right.name.split(".")),
    }
    return _composed(
        "grant", privilege=SQL(right.privilege), kind=SQL(right.kind), object=objects[right.kind], role=Identifier(role)
    )


def _composed(name: str, **names: Composable) -> Composed:
    return SQL(statement("tideline.ledger", name)).format(**names)
