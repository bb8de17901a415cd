-- -> number, checksum of what was applied.
SELECT number, checksum FROM tideline.migration ORDER BY number;
