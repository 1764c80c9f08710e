"""The papers' training: blocks by gradient descent, round by round."""
