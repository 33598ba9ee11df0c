"""Few-step sampling: the noise levels of a checkpoint and the walk from noise to a clean latent."""
