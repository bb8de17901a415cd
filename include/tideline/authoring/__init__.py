"""What the author of a pipeline needs before anything is loaded: check a declaration, and try it on a sample of records."""
