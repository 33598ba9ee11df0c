"""What a session is: events, the sans-IO protocol, the journal, the manager. Imports no torch, no FastAPI."""
