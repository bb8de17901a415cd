"""The format `protobuf`: records of a message become columns."""
