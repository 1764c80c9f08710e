"""Speed and accuracy of the detector and of the check of a record."""

from skfedcausal import FederatedRCADetector, check_plant
from skfedcausal.datasets import make_granger_plant


class Watch:
    """A detector on a record with an upset in one unit."""

    def setup(self):
        shift = {"unit": 0, "size": 4.0, "at": 4600, "until": 4630}
        X, _ = make_granger_plant(4, n_samples=5000, level_shift=shift, random_state=0)
        self.nominal = {name: Y[:4500] for name, Y in X.items()}
        self.record = {name: Y[4500:] for name, Y in X.items()}
        self.detector = FederatedRCADetector().fit(self.nominal)

    def time_fit(self):
        FederatedRCADetector().fit(self.nominal)

    def time_incidents(self):
        self.detector.incidents(self.record)

    def track_root_named(self):
        return float("unit0" in set(self.detector.incidents(self.record)["root"]))


class Check:
    """The check of a clean record; what it finds is false."""

    def setup(self):
        self.X, _ = make_granger_plant(6, n_samples=5000, random_state=0)

    def time_check(self):
        check_plant(self.X)

    def peakmem_check(self):
        check_plant(self.X)

    def track_false_findings(self):
        return len(check_plant(self.X).findings)
