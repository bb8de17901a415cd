-- What an attempt has staged leaves, and is staged once more.
TRUNCATE {staging};
