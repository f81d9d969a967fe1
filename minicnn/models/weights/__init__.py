"""The trained networks that minicnn.models.pretrained finds by name: NAME.npz, NAME.json, NAME.md (README.md)."""
