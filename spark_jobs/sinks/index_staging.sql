-- One index of the target for an attempt's staging table. Not unique: what several tasks have staged may be there twice.
CREATE INDEX ON {staging} USING btree ({keys}) WHERE {condition};
