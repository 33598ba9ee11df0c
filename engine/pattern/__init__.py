"""A fake model for front-end work and load tests: real sessions and real video, no torch."""
