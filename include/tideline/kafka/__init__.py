"""What a broker says about topics and offsets, and how it is connected to. Reads no values of records."""
