-- Every row of a dimension table. Without a semicolon: the driver puts it into COPY (...).
SELECT * FROM {table}
