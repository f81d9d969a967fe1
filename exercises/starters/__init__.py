"""One starter file per task: copy it, fill it in, check it.  See docs/exercises.md."""
