"""Worlds played from a script, without a server: the same engine, the same pixels."""
