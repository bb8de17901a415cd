-- Let the pages of staged states whose timers have come be found, in the order in which `select_due` reads them.
CREATE INDEX ON {staging} (stream_id, expires_at, key) WHERE phase = 1;
