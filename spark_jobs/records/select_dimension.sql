-- Read every row of a dimension table. There is no semicolon, because the driver puts the query into COPY (...).
SELECT * FROM {table}
