"""The command line `tideline`: what people see of the ledger, and the decisions that only people take.

In the order of a call: `entry` runs the command; `seeing`, `acting` and `checking` say what may be asked; `reaching` opens
the ledger and asks the brokers; `overview`, `history` and `accounts` find what is to be said; `output` says it. Acts
call `tideline.flow` and nothing else.

Commands import what they need when they run: `--help` must not wait for the clients of Kafka and Postgres.
"""

from tideline.cli.entry import main

__all__ = ["main"]
