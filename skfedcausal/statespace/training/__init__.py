"""Gradient training on plain arrays: corrections, steps, multipliers."""
