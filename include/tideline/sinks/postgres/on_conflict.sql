-- Let the row of a newer record replace the row of its key. There is no semicolon, because other statements contain this
-- one.
ON CONFLICT ({key}) DO UPDATE SET {assignments}
