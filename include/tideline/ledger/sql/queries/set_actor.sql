-- Who acts in this session, as it will stand in every event that it causes.
SELECT set_config('tideline.actor', %(actor)s, false);
