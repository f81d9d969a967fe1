"""Eight tasks for students, each with a starter file and a check for the answer: docs/exercises.md."""
