"""HTTP and WebSocket edge: the FastAPI application, wire messages, packaging, settings, CLI, client."""
