"""The commands of `worldline`, one module each."""
