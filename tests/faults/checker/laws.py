"""The laws that are checked, by name. Docs and tests take the names from here."""

LAWS: dict[str, str] = {
    # records, rows and rejects
    "lost": "Every record whose offset a batch owns is in the output, in the rejects, or was filtered by the transform.",
    "doubled": "No record is in the output twice, or in the output and in the rejects.",
    "invented": "Every row and every reject is of a record that Kafka has shown.",
    "altered": "Rows have the values that the transform gives, and rejects the bytes, headers and timestamp of their record.",
    "wrong fate": "A record was written, rejected or filtered as the transform would have it.",
    "unpublished": "No row and no reject is of a batch that is not published.",
    "out of place": "Every row and every reject names the batch that owns its offset.",
    "foreign": "A row that names another pipeline's batch stands at an offset that this batch owns in a stream of that pipeline.",
    "miscounted": "The counts of a range that its batch still owns as a whole are those of what is there.",
    # coverage
    "gap": "Between a stream's start and its head every offset has an owner.",
    "overlap": "No offset has two owners.",
    "forgotten": "What a batch has published has an owner, also behind the head and before the start.",
    "owner": "Coverage names a hole, or a batch that has published these offsets itself.",
    "usurped": "Of the batches that have published an offset the last one owns it.",
    "superseded": "A batch is superseded exactly when it has published and owns nothing any more.",
    "hole": "A hole is skipped or lost, with a reason and a name.",
    # heads
    "twins": "One partition of one incarnation is one stream.",
    "head behind start": "No head stands before its stream's start.",
    "head beyond coverage": "No head has passed offsets that nobody accounts for.",
    "head moved back": "No move of a head goes back.",
    "head history": "Each move of a head begins where the last one ended, and the head stands where the last one ends.",
    "advanced early": "The heads have passed every live batch that is advanced or superseded: its run is through.",
    # batches
    "counts": "A range has counts exactly when its batch is published; they add up, and gaps are where gaps are allowed.",
    "reserved": "A range reserves its offsets exactly while its batch is live or a backfill, and not abandoned.",
    "reserved twice": "No offset is reserved by two batches.",
    "illegal transition": "States change only in the ways that there are.",
    "broken chain": "A history begins at the beginning, and each change of state begins where the last one ended.",
    "state": "Batches and streams stand in the state in which their history ends.",
    "fence": "The fences of a batch's attempts count up from 1 to its own, and the last attempt is the one that the batch names.",
    "winner": "A batch that is published has one published attempt, its newest; others have none.",
    "open attempt": "An attempt has no end exactly while it is the newest of a batch that is being written.",
    # asset events
    "outbox": "A batch stands in the outbox exactly when it is published, and is marked as announced only when it has an asset event.",
    "announced twice": "No batch has more than one asset event, and none that is not published has one.",
    # when everything has come to rest
    "jammed": "No batch is open or waits for its heads, and no stream is stopped.",
    "unread": "The heads stand at the end of the log.",
    "unannounced": "Every published batch has an asset event.",
    "unfollowed": "Every partition of the topics as they are now has a stream that is not retired.",
}
"""Each law in one sentence."""
