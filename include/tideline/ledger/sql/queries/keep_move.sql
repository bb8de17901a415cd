RELEASE SAVEPOINT move;  -- every head of the batch has moved
