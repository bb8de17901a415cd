-- Set the reason that is stored in every event that this transaction causes.
SELECT set_config('tideline.reason', %(reason)s, true);
