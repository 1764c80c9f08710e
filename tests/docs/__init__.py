"""Pages of the documentation: how long they are, where they stand, whom they link to."""
