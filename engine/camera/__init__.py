"""Camera: from controls to motions, from motions to poses, from poses to ray embeddings."""
