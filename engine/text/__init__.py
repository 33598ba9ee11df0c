"""Prompts to embeddings."""
