"""Whether what a plant assumes holds in a record, and what follows for its verdicts."""
