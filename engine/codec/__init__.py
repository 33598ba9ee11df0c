"""Between pixels and latents: causal codecs that keep a history per session."""
