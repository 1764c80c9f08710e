"""Theorems of the papers as functions, for those who check them."""
