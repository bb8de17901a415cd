-- Settings that this session began with, and where each comes from: default, configuration file, database, user, client.
SELECT name, current_setting(name) AS value, source FROM pg_settings WHERE name = ANY (%(names)s) ORDER BY name;
