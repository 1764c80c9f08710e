"""Pages on incidents: what a detector offers beside its tables."""

from sklearn.utils.validation import check_is_fitted


class IncidentReports:
    """Adds :meth:`report` to a detector with ``incidents`` and ``false_alarms_``."""

    def report(self, incident, path, *, X=None, title=None):
        """Write a page on an incident that a shift lead can read.

        What happened, where it began, why we think so, what we do not know, what data left the units.
        """
        check_is_fitted(self)
        from ..reports import incident_page  # matplotlib is optional

        return incident_page(self, incident, X, title).write(path)
