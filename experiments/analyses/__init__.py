"""What is measured on trained networks."""
