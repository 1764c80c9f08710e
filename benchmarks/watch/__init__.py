"""A watch under whatever happens to it in a year."""
