"""Chooses the account that Postgres runs as, because Postgres refuses root. Changes no permissions of folders above the server's own."""

import os
import pwd
import shutil
from dataclasses import dataclass
from pathlib import Path

from tideline.errors import FatalError

_OTHERS_MAY_PASS = 0o001


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresAccount:
    """How to start a program under another account."""

    user: tuple[int, int] | None = None
    """The uid and gid to change to before the program starts; None keeps those of the caller."""
    prefix: tuple[str, ...] = ()
    """A program and arguments to put before the command; that program changes the account itself."""
    owner: tuple[int, int] | None = None
    """The uid and gid that must own the program's files; None leaves the caller as their owner."""


def unprivileged(*reach: Path) -> PostgresAccount:
    """Return the caller's own account, or `nobody` when the caller is root.

    A file may be below a folder that other accounts cannot enter, such as root's home or a temporary folder. Then
    `nobody` is given the capability CAP_DAC_OVERRIDE. Copying data and programs to another place would leave files
    behind outside the checkout.

    Args:
        reach: Existing files and folders that the program must be able to open.

    Raises:
        FatalError: `nobody` does not exist, or cannot be given the capability.
    """
    if os.geteuid() != 0:
        return PostgresAccount()
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError:
        raise FatalError(
            "Postgres refuses to run as root, and this machine has no account `nobody`",
            next_step="run as an ordinary user, or create the account",
        ) from None
    owner = (nobody.pw_uid, nobody.pw_gid)
    closed = [
        folder for path in reach for folder in path.resolve().parents if not folder.stat().st_mode & _OTHERS_MAY_PASS
    ]
    if not closed:
        return PostgresAccount(user=owner, owner=owner)
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise FatalError(
            f"Postgres refuses to run as root, and `nobody` cannot pass {closed[0]} (no `setpriv` here to help it)",
            next_step="move the checkout to a folder that everyone may pass (such as /srv), or run as an ordinary user",
        )
    # Postgres checks its own programs with access(). Without this bit access() ignores capabilities of any user but root.
    capability = ("--inh-caps=+dac_override", "--ambient-caps=+dac_override", "--securebits=+no_setuid_fixup")
    # A change of account clears the parent-death signal, so setpriv has to set it again.
    change = (f"--reuid={owner[0]}", f"--regid={owner[1]}", "--clear-groups", "--pdeathsig=INT")
    return PostgresAccount(prefix=(setpriv, *change, *capability), owner=owner)
