"""Attention over already projected Q, K, V: contract, masks, capabilities, backends, placements."""
