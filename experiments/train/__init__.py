"""From settings to a trained network in a folder, and back."""
