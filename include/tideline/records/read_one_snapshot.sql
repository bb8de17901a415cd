-- Let all queries of this transaction see the same moment.
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY
