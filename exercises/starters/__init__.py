"""A file to start from for each task: copy it, fill it in, check it.  See docs/exercises.md."""
