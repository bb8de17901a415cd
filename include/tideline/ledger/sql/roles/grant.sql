-- Grant one right.
GRANT {privilege} ON {kind} {object} TO {role};
