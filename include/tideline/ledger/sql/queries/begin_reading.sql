-- First statement of a transaction that only looks: all that follows sees one moment, and nothing can be changed by mistake.
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY;
