-- Let staged states be found by their keys. However many timers have come, none of them then costs a scan of what was staged.
CREATE INDEX ON {staging} (key);
ANALYZE {staging};
