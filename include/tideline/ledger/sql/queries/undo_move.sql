ROLLBACK TO SAVEPOINT move;  -- not every head stood at the batch's start
