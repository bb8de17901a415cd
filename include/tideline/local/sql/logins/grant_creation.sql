-- Let the writer create output tables and their schemas, and the operator delete the rows that a rewind takes back. No other user may connect.
REVOKE ALL ON DATABASE {database} FROM PUBLIC;
GRANT CREATE ON DATABASE {database} TO {writer};
GRANT CREATE ON SCHEMA public TO {writer};
ALTER DEFAULT PRIVILEGES FOR ROLE {writer} GRANT USAGE ON SCHEMAS TO {operator};
ALTER DEFAULT PRIVILEGES FOR ROLE {writer} GRANT SELECT, DELETE ON TABLES TO {operator};
