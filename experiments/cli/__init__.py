"""What every command needs: one place for errors, options, signals, progress and ranks."""
