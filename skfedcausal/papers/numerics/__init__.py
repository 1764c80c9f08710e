"""Numerics of gradient training on plain arrays: problems, gradients, steps, fixed points."""
