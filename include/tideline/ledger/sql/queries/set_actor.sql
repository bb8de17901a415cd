-- Set the actor that is stored in every event that this session causes.
SELECT set_config('tideline.actor', %(actor)s, false);
