"""Loading a checkpoint folder in diffusers layout."""
