"""Benefits known right after a fit: held-out rows, from the messages of the fit."""

import pickle

import numpy as np
import pandas as pd
import pytest

from skfedcausal import (
    FederatedCounterfactualEstimator,
    FederatedGrangerEstimator,
    LikelihoodOptions,
    LikelihoodServer,
    inspection,
)
from skfedcausal.datasets import make_granger_plant

pytestmark = pytest.mark.medium


def test_fit_knows_the_benefit_that_a_later_question_finds():
    X, _ = make_granger_plant(3, links=[("unit0", "unit2")], link_strength=0.5, random_state=0)
    est = FederatedGrangerEstimator(server=LikelihoodServer(options=LikelihoodOptions(held_out=0.3))).fit(X)
    known = est.benefit_
    assert pickle.loads(pickle.dumps(est)).benefit_.equals(known)
    pd.testing.assert_frame_equal(known, inspection.benefit(est, X, held_out=0.3))
    assert known.loc["unit2", "neighbour"] == "unit0"
    joining = est.validity_.query("check == 'joining gains held-out'").set_index("effect")
    assert joining["statistic"].to_dict() == known["gain"].to_dict()
    assert joining.loc["unit2", "p_value"] < 1e-6
    assert joining.loc["unit2", "passed"]
    for name, row in known.iterrows():
        assert row["bytes_up"] == est.communication_["per_client"][name]["bytes_up"]
    plain = FederatedGrangerEstimator().fit(X)
    assert plain.transition_.tolist() == est.transition_.tolist()
    assert plain.communication_ == est.communication_
    assert plain.server_.benefit_ is None


@pytest.mark.slow
def test_units_that_nothing_couples_gain_nothing():
    """Zero exactly where the search leaves a unit alone, within error elsewhere."""
    distance = []
    for seed in range(12):
        X, _ = make_granger_plant(3, n_samples=1000, n_links=0, random_state=seed)
        table = (
            FederatedGrangerEstimator(server=LikelihoodServer(options=LikelihoodOptions(held_out=0.3))).fit(X).benefit_
        )
        alone = table["stderr"] == 0
        assert (table.loc[alone, "gain"] == 0).all()
        distance.extend((table["gain"] / table["stderr"])[~alone])
    assert len(distance) < 12  # of 36
    assert np.abs(distance).max(initial=0.0) < 4


def test_plants_with_inputs_are_refused():
    X, truth = make_granger_plant(2, n_samples=300, n_inputs=1, random_state=0)
    est = FederatedCounterfactualEstimator(server=LikelihoodServer(options=LikelihoodOptions(held_out=0.3)))
    with pytest.raises(ValueError, match="without inputs"):
        est.fit(X, inputs=truth.inputs)
