"""The command line `tideline`: what people see of the ledger, and the decisions that only people take.

In the order of a call: `entry` runs the command; `commands` declares names and options; `session` opens
the ledger and asks the brokers; `pages` collects what is shown; `output` prints it. Commands that act
call `tideline.flow` and nothing else.

Commands import what they need when they run: `--help` must not wait for the clients of Kafka and Postgres.
"""

from tideline.cli.entry import main

__all__ = ["main"]
