"""What the paper measures on trained networks: pairs of filters, outgoing weights, invariance, reconstruction."""
