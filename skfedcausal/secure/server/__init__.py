"""What the server does in secure sums: it opens sums and sees no rows."""
