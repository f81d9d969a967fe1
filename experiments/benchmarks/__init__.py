"""What experiments.bench compares, and how time and memory are measured."""
