-- name: add_expired
-- Mark the staged rows of a stateful pipeline that a timer has made: they have the coordinates of an earlier record.
ALTER TABLE {staging} ADD COLUMN tideline_expired boolean NOT NULL;
