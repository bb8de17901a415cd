-- number, name, checksum of a file just applied in this transaction.
INSERT INTO tideline.migration (number, name, checksum) VALUES (%(number)s, %(name)s, %(checksum)s);
