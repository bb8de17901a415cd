-- Make a role the owner of a schema, of a table or view, or of a type.
ALTER {kind} {object} OWNER TO {role};
