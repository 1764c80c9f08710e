"""The server of the papers: blocks by gradient descent, round by round."""

from .server import GradientServer

__all__ = ["GradientServer"]
