"""Versions for CUDA arrays: kernels in .cu files, one thread for each output, and cuBLAS for matrix products."""
