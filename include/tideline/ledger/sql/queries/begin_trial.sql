-- Begin a part of the transaction that is undone in any case.
SAVEPOINT trial;
