-- Undo what the transaction has done since the trial began.
ROLLBACK TO SAVEPOINT trial;
