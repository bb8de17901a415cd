-- Those of the given identities that no batch of the ledger has, in the given order.
SELECT given.identity
FROM unnest(%(identities)s::uuid[]) WITH ORDINALITY AS given (identity, place)
WHERE NOT EXISTS (SELECT FROM tideline.batch b WHERE b.identity = given.identity OFFSET 0)
ORDER BY given.place;
