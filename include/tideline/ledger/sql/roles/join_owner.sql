-- Let this user act as the owner of the ledger.
GRANT {owner} TO {user};
