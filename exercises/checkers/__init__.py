"""One check per task: `check(answer, rng)` returns if the answer is right and raises AnswerError if not."""
