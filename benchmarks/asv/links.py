"""Speed, memory, accuracy and bytes of the default fit."""

import numpy as np

from skfedcausal import FederatedGrangerEstimator
from skfedcausal.datasets import make_granger_plant


class Fit:
    """The default fit on complete records of a few sizes."""

    params = ([4, 8], [1000, 4000])
    param_names = ("n_units", "n_samples")

    def setup(self, n_units, n_samples):
        self.X, self.truth = make_granger_plant(n_units, n_samples=n_samples, random_state=0)

    def time_fit(self, n_units, n_samples):
        FederatedGrangerEstimator().fit(self.X)

    def peakmem_fit(self, n_units, n_samples):
        FederatedGrangerEstimator().fit(self.X)

    def track_bytes_up(self, n_units, n_samples):
        return FederatedGrangerEstimator().fit(self.X).communication_["bytes_up"]

    def track_oracle_gap(self, n_units, n_samples):
        return FederatedGrangerEstimator().fit(self.X).oracle_gap(self.X)

    def track_f1_of_links(self, n_units, n_samples):
        links = FederatedGrangerEstimator().fit(self.X).links_
        found = set(map(tuple, links.loc[links["verdict"] == "influence", ["cause", "effect"]].to_numpy()))
        true = set(map(tuple, self.truth.links[["cause", "effect"]].to_numpy()))
        return 2 * len(found & true) / max(len(found) + len(true), 1)

    track_bytes_up.unit, track_oracle_gap.unit, track_f1_of_links.unit = "bytes", "relative", "F1"


class Missing:
    """A fit with a tenth of the cells missing."""

    def setup(self):
        self.X, _ = make_granger_plant(3, n_samples=1000, missing=0.1, random_state=0)

    def time_fit(self):
        FederatedGrangerEstimator().fit(self.X)

    def peakmem_fit(self):
        FederatedGrangerEstimator().fit(self.X)


class Prediction:
    """Filtering a record with a fitted plant."""

    def setup(self):
        self.X, _ = make_granger_plant(4, n_samples=20_000, random_state=0)
        self.estimator = FederatedGrangerEstimator().fit({name: Y[:2000] for name, Y in self.X.items()})

    def time_predict(self):
        self.estimator.predict(self.X)

    def track_error(self):
        predicted = self.estimator.predict(self.X, model="server")
        return float(np.sqrt(np.mean((np.hstack(list(self.X.values())) - predicted) ** 2)))
