"""Every operation's forward pass as naive loops: obviously right, slow, written to be read beside the paper.

Nothing here imports minicnn, only numpy: it is the oracle that `minicnn.ops` and `minicnn.fast` are tested
against. Arrays are NHWC `(N, H, W, C)`, filters HWIO `(kh, kw, C_in, C_out)`. Whatever the dtype that comes
in, the arithmetic is in Python floats (IEEE double precision) and the result is float64. The loops name their
indices alike everywhere: image n, output row p and column q, row i and column j within a window, channel c,
filter o; `at` is the index of one element of an array of any shape.

philox.py computes the random bits of dropout; paper/ has the tables of the paper as data.
"""
