"""What the paper proves: frames, reconstruction, complexity, random subspaces; on raw arrays, NumPy's or CuPy's."""
