"""What a world is: worker, pipeline, sampler, transformer, camera, codecs, text, encoder."""
