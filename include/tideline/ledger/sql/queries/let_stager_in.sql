-- Let the executors' role fill a staging table of the driver's.
GRANT SELECT, INSERT ON {staging} TO {stager};
