-- Read every row of a table or view. There is no semicolon, because the driver puts the query into COPY (...).
SELECT * FROM {table}
