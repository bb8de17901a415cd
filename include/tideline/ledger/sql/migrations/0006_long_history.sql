-- Indexes for questions whose answer is small however long the history is.

-- Upkeep prunes events by their time. Nothing asks for those of a pipeline in another order.
CREATE INDEX event_time ON tideline.event (pipeline, at);
DROP INDEX tideline.event_pipeline;

-- Of one pipeline among many: who accounts for its offsets, and what of them is a hole.
CREATE INDEX coverage_stream ON tideline.coverage (stream_id);
CREATE INDEX coverage_hole ON tideline.coverage (stream_id) WHERE hole IS NOT NULL;

-- The few among many that a person asks for by kind or state; open ones are in batch_open.
CREATE INDEX batch_of_kind ON tideline.batch (pipeline, kind, batch_id) WHERE kind <> 'live';
CREATE INDEX batch_given_up ON tideline.batch (pipeline, state, batch_id) WHERE state IN ('abandoned', 'superseded');
