"""The whole paper from one command: what it takes (scales, targets), what is left to do (plan), and doing it (execute)."""
