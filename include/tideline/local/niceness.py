"""Niceness of sessions: Linux weighs whole sessions against each other, and a new one counts as not nice at all."""

import os
import time
from pathlib import Path

_TRIES = 20
_REFUSED_S = 0.1
"""For so long after a change Linux refuses the next one by an ordinary user."""


def keep(pid: int) -> None:
    """Give the session that process `pid` has opened the niceness of that process.

    Without it what `nice` has started takes as much of the processors as everything else, since its servers are sessions of their own (see
    autogroups in Linux's sched(7)). Does nothing where the system has none, or where the process has gone.
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
