"""The server of the papers: blocks by gradient descent, round by round."""
