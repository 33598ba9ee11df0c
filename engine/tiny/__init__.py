"""The tiny world: its places, their renderer, and the programs that train the shipped checkpoint.

Nothing here is imported on the serving path.
"""
