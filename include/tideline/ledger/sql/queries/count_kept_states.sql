-- How many keys a batch has changed, after all states but the last of each key were deleted from the staged ones.
SELECT count(*) AS n_keys FROM {staging};
