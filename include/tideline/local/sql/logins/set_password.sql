-- Give a role its password. The server keeps a hash of it.
ALTER ROLE {role} PASSWORD {password};
