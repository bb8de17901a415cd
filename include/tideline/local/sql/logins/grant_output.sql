-- Let the operator delete the rows that a rewind takes back, in the output tables that are there.
GRANT USAGE ON SCHEMA {schema} TO {operator};
GRANT SELECT, DELETE ON ALL TABLES IN SCHEMA {schema} TO {operator};
