"""Pixels to bytes: one chunk at a time, by a fresh encoder, so that the bytes depend on the frames alone."""
