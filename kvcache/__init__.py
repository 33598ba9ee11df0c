"""Paged K/V, capacity plan, conditioning scope, first-chunk sharing, ledger."""
