"""What the server does in the training of the papers: it sees messages and no records."""
