"""The command line `tideline`: it shows the state of the ledger, and carries out the decisions of operators.

The modules in the order in which a call uses them: `entry` runs the command; `commands` declares names and options; `tideline.reports` collects
what is shown, or carries out a decision by a verb of `tideline.flow`; `output` prints it.

Commands import their dependencies when they run, so that `--help` does not wait for the clients of Kafka and Postgres to load.
"""

from tideline.cli.entry import main

__all__ = ["main"]
