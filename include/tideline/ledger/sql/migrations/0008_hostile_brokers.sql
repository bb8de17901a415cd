-- Brokers that lose records without a trace, and topics that come back.

-- Records keep the epoch of the leader that took them, and no log is cut without an election: where the newest record before what was planned is of a
-- later epoch than the last look, the log was cut and has grown again.
ALTER TABLE tideline.stream ADD COLUMN leader_epoch int CHECK (leader_epoch >= 0);
COMMENT ON COLUMN tideline.stream.leader_epoch IS 'of the leader at the last look, when the log held all that was planned of it';

-- Streams: as in 0004, but one that has retired may come back as it was: stopped, until a person decides. Restored brokers may have its topic again.
CREATE OR REPLACE FUNCTION tideline.check_stream() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.next_offset <> NEW.start_offset THEN
            RAISE EXCEPTION 'stream of %/%: a new head stands at its start', NEW.topic, NEW.partition USING ERRCODE = 'restrict_violation';
        END IF;
        RETURN NEW;
    END IF;
    IF (NEW.stream_id, NEW.pipeline, NEW.cluster_id, NEW.topic, NEW.topic_id, NEW.partition, NEW.start_offset) IS DISTINCT FROM
       (OLD.stream_id, OLD.pipeline, OLD.cluster_id, OLD.topic, OLD.topic_id, OLD.partition, OLD.start_offset) THEN
        RAISE EXCEPTION 'stream %: identity and start never change', OLD.stream_id USING ERRCODE = 'restrict_violation';
    END IF;
    IF OLD.state = 'retired' AND (NEW.state <> 'stopped' OR (NEW.next_offset, NEW.accepted_end, NEW.leader_epoch) IS DISTINCT FROM
        (OLD.next_offset, OLD.accepted_end, OLD.leader_epoch)) THEN
        RAISE EXCEPTION 'stream % is retired: it never changes', OLD.stream_id USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.next_offset < OLD.next_offset THEN
        RAISE EXCEPTION 'stream %: the head never goes back (from % to %)', OLD.stream_id, OLD.next_offset, NEW.next_offset
            USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.next_offset > OLD.next_offset THEN
        IF NOT coalesce(int8range(OLD.next_offset, NEW.next_offset) <@ (
            SELECT range_agg(offsets::int8range) FROM tideline.covering(NEW.stream_id, int8range(OLD.next_offset, NEW.next_offset))), false) THEN
            RAISE EXCEPTION 'stream %: the head cannot pass unpublished offsets of [%, %)', OLD.stream_id, OLD.next_offset, NEW.next_offset
                USING ERRCODE = 'check_violation';
        END IF;
    END IF;
    RETURN NEW;
END $$;
