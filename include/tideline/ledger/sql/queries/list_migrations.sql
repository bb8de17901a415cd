-- The number and the checksum of each applied migration.
SELECT number, checksum FROM tideline.migration ORDER BY number;
