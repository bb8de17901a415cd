-- What an attempt had staged; it may be gone already.
DROP TABLE IF EXISTS {staging};
