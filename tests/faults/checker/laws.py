"""The laws (invariants) that are checked, by name. Docs and tests take the names from here."""

LAWS: dict[str, str] = {
    # records, rows and rejects
    "lost": "Every record whose offset a batch owns is in the output, in the rejects, or was filtered by the transform.",
    "doubled": "No record is in the output twice, or in the output and in the rejects.",
    "invented": "Every row and every reject is of a record that Kafka has shown.",
    "altered": "Rows have the values that the transform gives, and rejects the bytes, headers and timestamp of their record.",
    "wrong fate": "A record was written, rejected or filtered as the transform prescribes.",
    "unpublished": "No row and no reject is of an unpublished batch.",
    "out of place": "Every row and every reject names the batch that owns its offset.",
    "foreign": "A row that names another pipeline's batch is at an offset that this batch owns in a stream of that pipeline.",
    "miscounted": "The counts of a range that its batch still owns completely agree with the rows and rejects.",
    # coverage
    "gap": "Between a stream's start and its head every offset has an owner.",
    "overlap": "No offset has two owners.",
    "forgotten": "Every published offset has an owner, also behind the head and before the start.",
    "owner": "Coverage names a hole, or a batch that has itself published these offsets.",
    "usurped": "The owner of an offset is the last batch that published it.",
    "superseded": "A batch is superseded exactly when it has published and no longer owns any offset.",
    "hole": "A hole is skipped, lost or rewound, with a reason and a name.",
    # heads
    "twins": "Each partition of each incarnation has one stream.",
    "head behind start": "No head is before its stream's start.",
    "head beyond coverage": "No head has passed offsets without an owner.",
    "head moved back": "No head moves back.",
    "head history": "Each move of a head begins where the last one ended, and the head is where the last move ends.",
    "advanced early": "The heads have passed every live batch that is advanced or superseded, unless it was rewound.",
    # batches
    "counts": "A range has counts exactly when its batch is published; they add up, and there are gaps only where they are allowed.",
    "reserved": "A range reserves its offsets exactly if its batch is live or a backfill, and neither abandoned nor rewound.",
    "reserved twice": "No offset is reserved by two batches.",
    "illegal transition": "States change only by permitted transitions.",
    "broken chain": "A history begins with the creation, and each change of state begins where the last one ended.",
    "state": "The state of a batch or stream is the one in which its history ends.",
    "fence": "The fences of a batch's attempts count up from 1 to its own, and the last attempt is the one that the batch names.",
    "winner": "A batch that is published has one published attempt, its newest; other batches have none.",
    "open attempt": "An attempt has no end exactly while it is the newest of a batch that is being written.",
    # states
    "folded": "A stateful batch is folded exactly when it is published, and its undo is applied exactly when it is superseded.",
    "folded in order": "Each range begins where its stream is folded, and only skipped or lost offsets lie between; none are left by a rewind.",
    "position": "The position of a stream is the end of the range that was folded last.",
    "undo": "The undo of the batches that can be rewound leads back, batch by batch, to the states and positions before each of them.",
    "watermark": "The largest event time of a stream never goes back from batch to batch.",
    "fold": "States, positions, rows and rejects are those of an uninterrupted fold over exactly the loaded records.",
    # outside sinks
    "settled": "A batch of an outside sink names the attempt that has committed it, exactly when it is published.",
    "committed": "The rows of a published batch are visible by the attempt that it names, and no row of an abandoned batch is visible.",
    # asset events
    "outbox": "A batch is in the outbox exactly when it is published, and is marked as announced only when it has an asset event.",
    "announced twice": "No batch has more than one asset event, and no unpublished batch has one.",
    # after all runs have finished
    "jammed": "No batch is open or waits for its heads, and no stream is stopped.",
    "reloaded": "What a rewind has left is loaded again, or skipped.",
    "unread": "The heads are at the end of the log.",
    "unsettled": "Every batch whose rows are visible in an outside sink is published.",
    "unannounced": "Every published batch has an asset event.",
    "unfollowed": "Every partition of the current topics has a stream that is not retired.",
}
"""Each law in one sentence."""
