-- Act as the owner of the ledger from now on, so that what is created belongs to it.
SET ROLE {owner};
