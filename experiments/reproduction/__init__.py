"""The whole paper from one command: what it takes (scales, targets), what is left (plan), doing it (execute)."""
