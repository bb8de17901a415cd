"""How a batch becomes visible exactly once; one module for each kind of sink."""
