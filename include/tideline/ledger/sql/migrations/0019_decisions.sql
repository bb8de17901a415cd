-- The few events with a reason, among millions: the page lists what people have decided about a pipeline. A head that moves over a hole says nothing
-- that the event of the hole does not.
CREATE INDEX event_decided ON tideline.event (pipeline, event_id) WHERE detail ? 'reason' AND action <> 'move head';
