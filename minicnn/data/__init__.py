"""Data sets: finding, verifying, reading and feeding them.  Import the module you need, e.g. `minicnn.data.cifar`."""
