"""The page that experiments.explore writes: a network that computes in a browser, and what the paper is about."""
