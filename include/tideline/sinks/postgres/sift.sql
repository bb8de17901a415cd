-- Stage the rows that break no law, and return for each other row the number of the first law that it breaks. The rows
-- are judged in a materialized CTE, so that both parts of the statement use the same result for each row. There is no
-- semicolon, because the driver puts the query into COPY (...).
WITH judged AS MATERIALIZED (SELECT *, CASE {laws} END AS tideline_law FROM {sieve}),
     passed AS (INSERT INTO {staging} ({columns}) SELECT {columns} FROM judged WHERE tideline_law IS NULL)
SELECT tideline_row, tideline_law FROM judged WHERE tideline_law IS NOT NULL ORDER BY tideline_row
