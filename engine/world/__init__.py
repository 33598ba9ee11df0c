"""A loaded model, and the worlds that share it."""
