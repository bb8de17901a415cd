"""What reports and monitoring look at: what the brokers say about the streams of the ledger. It decides nothing.

`brokers` asks them, `comparison` compares the ledger with the answer, `headroom` says how long retention leaves unread records.
"""
