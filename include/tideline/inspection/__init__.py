"""What commands, the page and monitoring look at: the ledger, and what the brokers say about its streams. It decides nothing.

`session` opens the ledger and asks the brokers, `comparison` compares the two, `headroom` says how long retention leaves unread records.
"""
