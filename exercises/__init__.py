"""Eight tasks for students, each with a file to start from and a check of the answer: docs/exercises.md."""
