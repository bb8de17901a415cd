-- Stage the rows that break no law, and name for each other row the first that it breaks. What was put aside is materialized, so that both halves see
-- one judgement of each row. Without a semicolon: the driver puts it into COPY (...).
WITH judged AS MATERIALIZED (SELECT *, CASE {laws} END AS tideline_law FROM {sieve}),
     passed AS (INSERT INTO {staging} ({columns}) SELECT {columns} FROM judged WHERE tideline_law IS NULL)
SELECT tideline_row, tideline_law FROM judged WHERE tideline_law IS NOT NULL ORDER BY tideline_row
