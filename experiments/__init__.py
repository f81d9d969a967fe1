"""Command lines: one for each table, figure or theorem of the paper."""
