"""The kafka-acls commands of docs/permissions.md, given to a user of the tests' broker."""

import argparse
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from given_ledger.granted_rights import PAGE
from tideline.deployment import secret

PASSWORD = secret.marked("hush")
_SOURCE, _OUTPUT = (
    re.findall(r"^kafka-acls\.sh (.+)$", part, re.MULTILINE) for part in PAGE.split("### A topic as output", 1)
)
_EVERYTHING_ELSE = (
    (ResourceType.BROKER, "kafka-cluster", ResourcePatternType.LITERAL),
    (ResourceType.TRANSACTIONAL_ID, "*", ResourcePatternType.LITERAL),
    (ResourceType.GROUP, "spark-kafka-", ResourcePatternType.PREFIXED),
)
"""What the page says is not needed. The tests' broker permits what no rule forbids, so this is forbidden."""


def bindings(topic: str, group: str, user: str, *, output: bool = False) -> list[AclBinding]:
    """Return one rule for each operation of the page's commands, for this topic, groups and transactional ids with this prefix, and this user.

    Args:
        topic: The topic that is read, or the one that is written.
        group: The prefix.
        user: The name of the user.
        output: Whether the commands are those for a topic that is written.
    """
    parser = argparse.ArgumentParser(exit_on_error=False, allow_abbrev=False)
    for name in (
        "--bootstrap-server",
        "--command-config",
        "--allow-principal",
        "--topic",
        "--group",
        "--transactional-id",
    ):
        parser.add_argument(name)
    parser.add_argument("--add", action="store_true", required=True)
    parser.add_argument("--operation", action="append")
    parser.add_argument("--resource-pattern-type", default="literal")
    found = []
    for command in _OUTPUT if output else _SOURCE:
        said = parser.parse_args(shlex.split(command))
        assert said.allow_principal == "User:tideline"
        assert said.topic in {None, "enriched_impressions" if output else "ad_impressions"}
        assert {said.group, said.transactional_id} <= {None, "tideline."}
        kind, name = (
            (ResourceType.TOPIC, topic)
            if said.topic
            else (ResourceType.GROUP if said.group else ResourceType.TRANSACTIONAL_ID, group)
        )
        pattern = ResourcePatternType[said.resource_pattern_type.upper()]
        found += [
            AclBinding(kind, name, pattern, f"User:{user}", "*", operation, AclPermissionType.ALLOW)
            for operation in (AclOperation[re.sub(r"\B([A-Z])", r"_\1", one).upper()] for one in said.operation)
        ]
    return found


@contextmanager
def limited_user(admin: AdminClient, topic: str, group: str, *, output: bool = False) -> Iterator[str]:
    """Yield a user who has no right on the topic, on groups with the prefix, or on anything that the page says is not needed."""
    others = [kind for kind in _EVERYTHING_ELSE if not (output and kind[0] == ResourceType.TRANSACTIONAL_ID)]
    user = f"limited_{uuid4().hex[:8]}"
    scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    admin.alter_user_scram_credentials([UserScramCredentialUpsertion(user, scram, PASSWORD.encode())])[user].result()
    everybody_else = (
        # With a rule for one user, a resource is closed for all others.
        *(
            (kind.restype, kind.name, kind.resource_pattern_type, AclPermissionType.ALLOW, "User:another")
            for kind in bindings(topic, group, user, output=output)
        ),
        *((*kind, AclPermissionType.DENY, f"User:{user}") for kind in others),
    )
    for kind, name, pattern, permission, principal in dict.fromkeys(everybody_else):
        add(admin, AclBinding(kind, name, pattern, principal, "*", AclOperation.ALL, permission))
    yield user
    for name in (topic, group):
        gone = AclBindingFilter(
            ResourceType.ANY, name, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
        )
        admin.delete_acls([gone])[gone].result()
    gone = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, f"User:{user}", None, AclOperation.ANY, AclPermissionType.ANY
    )
    admin.delete_acls([gone])[gone].result()


def add(admin: AdminClient, binding: AclBinding) -> None:
    """Create a rule. It takes effect a moment later."""
    admin.create_acls([binding])[binding].result()
