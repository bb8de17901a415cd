-- Constraints that would be checked at COMMIT: there a row that breaks one could no longer be told from the others.
SET CONSTRAINTS {constraints} IMMEDIATE;
