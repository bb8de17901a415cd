-- End every later statement of the transaction that takes longer than this.
SELECT set_config('statement_timeout', %(milliseconds)s::text, true);
