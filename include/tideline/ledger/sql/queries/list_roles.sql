-- The roles that the ledger was given, by duty; none if one user does everything.
SELECT duty, name FROM tideline.role;
