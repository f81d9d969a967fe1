"""A check for each task: `check(answer, rng)` raises AnswerError, or returns."""
