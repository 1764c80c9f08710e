"""What a fitted plant answers about its links."""
