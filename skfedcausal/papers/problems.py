"""Losses and problems of gradient training: what units and server see, in one place."""

from typing import TYPE_CHECKING, Any

import pandas as pd

from ..arguments import Inputs, Lengths, Record
from ..client.worker import local_features
from ..inspection._asked import answering
from ..message.training import LossAnswer, LossRequest
from .client.training import UnitTraining, unit_series
from .server.rounds import Plant

if TYPE_CHECKING:
    from ..estimators._plant import PlantEstimator


def losses(
    est: "PlantEstimator", X: Record | None = None, *, inputs: Inputs = None, lengths: Lengths = None
) -> pd.DataFrame:
    """Client and server losses of gradient training on a record, for estimators with a GradientServer.

    Parameters
    ----------
    est : FederatedGrangerEstimator or FederatedCounterfactualEstimator
        Fitted.
    X : list, dict, DataFrame or ndarray
    inputs : list or dict, default=None
        As in `fit`.
    lengths : sequence of int, default=None

    Returns
    -------
    DataFrame
        One row per unit, columns ``client`` (mean squared error of the augmented prediction of the
        measurements) and ``server`` (mean squared distance of server's and augmented states).

    Examples
    --------
    >>> from skfedcausal import FederatedGrangerEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.papers import GradientServer, losses
    >>> X, _ = make_granger_plant(2, random_state=0)
    >>> est = FederatedGrangerEstimator(server=GradientServer(solve="stationary")).fit(X)
    >>> losses(est, X).columns.tolist()
    ['client', 'server']
    """
    server = answering(est, "losses", "trains_units", "GradientServer")
    with est.asked_.about(X, inputs, lengths) as units:
        predicted = server.filter(units.messages()).predicted
        asked = {name: LossRequest(own) for name, own in units.by_unit(predicted)}
        answers = units.exchange.ask(asked, LossAnswer)
    rows = [{"client": answer.client, "server": answer.server} for answer in answers.values()]
    return pd.DataFrame(rows, index=pd.Index(list(answers), name="unit"))


def training_problems(
    est: "PlantEstimator", X: Record, *, inputs: Inputs = None, lengths: Lengths = None
) -> dict[str, Any]:
    """Every unit's problem of gradient training on a record, for ``skfedcausal.theory.unified``.

    Only for data that may be pooled: a problem holds moments of a unit's measurements with the other
    units' states.

    Parameters
    ----------
    est : FederatedGrangerEstimator or FederatedCounterfactualEstimator
        Fitted.
    X : list, dict, DataFrame or ndarray
    inputs : list or dict, default=None
        As in `fit`.
    lengths : sequence of int, default=None

    Returns
    -------
    dict of str to tuple (AugmentedProblem, Rates)

    Examples
    --------
    >>> from skfedcausal import FederatedGrangerEstimator, GradientServer
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.papers import training_problems
    >>> from skfedcausal.papers.numerics.descent import recurrence
    >>> from skfedcausal.theory.unified import spectral_radius
    >>> X, _ = make_granger_plant(2, random_state=0)
    >>> est = FederatedGrangerEstimator(server=GradientServer(solve="stationary")).fit(X)
    >>> bool(spectral_radius(recurrence(*training_problems(est, X)["unit0"]).H) < 1)
    True
    """
    server = answering(est, "training_problems", "trains_units", "GradientServer")
    plant = est.asked_.read(X, inputs, lengths)
    constant = any(U is not None for U in plant.inputs)
    units = {}
    for name, Y, U in zip(plant.names, plant.outputs, plant.inputs, strict=True):
        local = local_features(est.clients_[name], Y, U, plant.starts)
        series = unit_series(est.clients_[name], Y, U, plant.starts, local, est.augmenters_[name])
        units[name] = UnitTraining.start(est.clients_[name].model, series, constant)
    local_models = {name: unit.local_model(relay=True, stepwise=False) for name, unit in units.items()}
    plans = Plant.of(local_models).plans(server.step_sizes_, "moments")
    planned = {name: unit.planned(plans[name]) for name, unit in units.items()}
    return {name: (unit.problem, unit.rates) for name, unit in planned.items()}
