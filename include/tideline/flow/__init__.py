"""The verbs of Tideline. DAGs, the Spark job and the command line call these and nothing else.

Each verb is safe to call again at any time, after any crash, by any number of processes at once: the ledger decides, in one transaction per verb.
"""

from tideline.flow.advancing import advance
from tideline.flow.planning import plan
from tideline.flow.writing import claim, publish

__all__ = ["advance", "claim", "plan", "publish"]
