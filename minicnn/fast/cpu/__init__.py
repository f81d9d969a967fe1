"""Versions for NumPy arrays: cache-sized pieces on every core, scratch memory used again."""
