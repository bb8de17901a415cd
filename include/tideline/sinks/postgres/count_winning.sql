-- Count the staged records of the winners that are newer than what is there.
SELECT count(*) AS n_rows FROM {newest} WHERE NOT loses_to_row AND NOT loses_to_mark;
