"""Niceness of sessions. Linux shares processor time between whole sessions (autogroups), and a new session begins with niceness 0."""

import os
import time
from pathlib import Path

_TRIES = 20
_REFUSED_S = 0.1
"""Seconds after a change during which Linux refuses the next change by an ordinary user."""


def keep(pid: int) -> None:
    """Give the session that process `pid` has opened the niceness of that process.

    Without this, `nice make up` would have no effect on the servers that it starts: each is a session of its own, and
    would get as much processor time as any other session (see autogroups in Linux's sched(7)). Does nothing where the
    system has no autogroups, or where the process has ended.
    """
    for _ in range(_TRIES):
        try:
            if nice := os.getpriority(os.PRIO_PROCESS, pid):
                Path(f"/proc/{pid}/autogroup").write_text(str(nice))
        except BlockingIOError:
            time.sleep(_REFUSED_S)
        except OSError:
            return
        else:
            return
