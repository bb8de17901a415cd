-- Store which roles the ledger was given, in place of those before.
DELETE FROM tideline.role;
INSERT INTO tideline.role (duty, name) SELECT duty, name FROM unnest(%(duties)s::text[], %(names)s::text[]) AS given (duty, name);
