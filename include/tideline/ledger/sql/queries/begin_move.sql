SAVEPOINT move;  -- the heads of one batch move together or not at all
