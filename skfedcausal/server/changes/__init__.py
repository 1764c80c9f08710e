"""What of a learned plant has changed in another record: tests of links and units, their date, and verdicts."""
