"""Tuned versions of ops for the CPU, in C; a C compiler on the machine builds them when they are first needed."""
