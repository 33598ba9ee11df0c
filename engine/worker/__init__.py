"""The process that owns the device: its queue, its loop, and the server's handle on it."""
