"""The variables with which a command of the local stack connects: those of the shell, or those of the running stack."""

import os

from tideline.errors import FatalError
from tideline.local.supervisor import State


def connect() -> None:
    """Set the variables of this checkout's running stack, unless a variable of Tideline is set.

    Raises:
        FatalError: None is set, and the stack is not up.
    """
    if any(name.startswith("TIDELINE_") for name in os.environ):
        return
    state = State.read()
    if state is None or not state.ready:
        raise FatalError("the local stack is not up", next_step="run `make up`")
    os.environ.update(state.environment)
