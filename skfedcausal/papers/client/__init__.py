"""A unit's side of the training of the papers: it holds the record, and its messages leave."""
