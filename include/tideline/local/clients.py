"""The variables with which a command connects to the local stack: those of the shell, or those of the running stack."""

import os
from pathlib import Path

from tideline import settings
from tideline.errors import FatalError
from tideline.local.supervisor import RUN, SupervisorState


def use_running_stack(run: Path = RUN) -> bool:
    """Set the variables of the running stack whose state is in the folder `run`; return whether there is one."""
    state = SupervisorState.read(run)
    if state is None or not state.ready:
        return False
    os.environ |= state.environment
    return True


def connect() -> None:
    """Use the running stack of this checkout, unless a variable of Tideline is set.

    Raises:
        FatalError: None is set, and the stack is not up.
    """
    if not settings.is_configured() and not use_running_stack():
        raise FatalError("the local stack is not up", next_step="run `make up`")
