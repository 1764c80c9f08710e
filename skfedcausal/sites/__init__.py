"""Sites of their own: settings, records, privacy of a unit that runs elsewhere."""
