"""Worlds that vLLM-Omni computes: its AR-diffusion sessions behind the worker's own protocol."""
