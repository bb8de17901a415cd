-- name: list_migrations
-- Each applied migration: its number, its file's name and its checksum.
SELECT number, name, checksum FROM tideline.migration ORDER BY number;
