-- Check now what is otherwise checked at the end of the transaction.
SET CONSTRAINTS ALL IMMEDIATE;
