-- Make a role the owner of a database, into which no other user may look.
ALTER DATABASE {database} OWNER TO {role};
REVOKE ALL ON DATABASE {database} FROM PUBLIC;
