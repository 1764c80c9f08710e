"""Watching a plant: alarms, incidents and the posterior over roots."""
