"""Pages on incidents: what a detector offers beside its tables."""

from sklearn.utils.validation import check_is_fitted


class IncidentReports:
    """Adds :meth:`report` to a detector with ``incidents`` and ``false_alarms_``."""

    def report(self, incident, path, *, X=None, title=None):
        """Write a page on an incident that a shift lead can read.

        What happened, where it began, why we think so, what we do not know, what data left the units.

        Parameters
        ----------
        incident : Series or DataFrame
            Row of :meth:`incidents`; of a table its first row.
        path : str or Path
            HTML file. The page holds everything it shows and loads nothing.
        X : list, dict, DataFrame or ndarray, default=None
            The record of the incident, for a picture of it.
        title : str, default=None

        Returns
        -------
        Path

        Raises
        ------
        ValueError
            If `incident` is no row of :meth:`incidents`.
        ImportError
            With `X`, without matplotlib (extra ``plot``).

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> from skfedcausal import FederatedRCADetector
        >>> from skfedcausal.datasets import make_granger_plant
        >>> X, _ = make_granger_plant(n_units=3, n_samples=3000, random_state=0)
        >>> faulty = {name: Y[2600:].copy() for name, Y in X.items()}
        >>> faulty["unit2"][200:] += 2 * faulty["unit2"].std(axis=0)
        >>> detector = FederatedRCADetector().fit({name: Y[:2600] for name, Y in X.items()})
        >>> incidents = detector.incidents(faulty).query("detected >= 200")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     page = detector.report(incidents, Path(folder) / "trip.html", X=faulty).read_text()
        >>> "Where it began" in page
        True
        """
        check_is_fitted(self)
        from ..reports import incident_page  # matplotlib is optional

        return incident_page(self, incident, X, title).write(path)
