"""What `make demo` and `make tour` play on the local stack, and the records that they send. No part of the package."""
