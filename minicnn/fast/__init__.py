"""Faster versions of some ops, chosen in dispatch.py; minicnn/ops is what they must agree with."""
