-- Delete the rows that are older than a tombstone of the batch.
DELETE FROM {target} t USING {newest} n WHERE ({there_key}) = ({newest_key}) AND NOT n.loses_to_row;
