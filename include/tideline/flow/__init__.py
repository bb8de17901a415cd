"""The verbs of Tideline. DAGs, the Spark job and the command line call these and nothing else.

Each verb can be called again at any time, after any crash, and by any number of processes at once. The ledger decides the outcome, in one
transaction per verb.
"""

from tideline.flow.advancing import advance, announce, check_given, is_behind, none_given, show_heads
from tideline.flow.batch_decisions import abandon, accept_loss, retry, skip
from tideline.flow.claiming import claim_outputs, has_topics, outputs
from tideline.flow.cleaning import send_letters, upkeep
from tideline.flow.pipeline_decisions import free_output, move_output, recreate_table, retire
from tideline.flow.planning import Draft, Plan, describe, dry_run, plan
from tideline.flow.rewinding import Rewound, rewind
from tideline.flow.settling import intend, recover, settle
from tideline.flow.topic_decisions import accept_partitions, adopt_topic
from tideline.flow.writing import check_source, claim, publish

__all__ = [
    "Draft",
    "Plan",
    "Rewound",
    "abandon",
    "accept_loss",
    "accept_partitions",
    "adopt_topic",
    "advance",
    "announce",
    "check_given",
    "check_source",
    "claim",
    "claim_outputs",
    "describe",
    "dry_run",
    "free_output",
    "has_topics",
    "intend",
    "is_behind",
    "move_output",
    "none_given",
    "outputs",
    "plan",
    "publish",
    "recover",
    "recreate_table",
    "retire",
    "retry",
    "rewind",
    "send_letters",
    "settle",
    "show_heads",
    "skip",
    "upkeep",
]
