-- Record an applied migration: its number, its file's name and its checksum.
INSERT INTO tideline.migration (number, name, checksum) VALUES (%(number)s, %(name)s, %(checksum)s);
