"""The problems of gradient training where records may be pooled: what units and server see, in one place."""

from ..client.answers import local_features
from .client.training import UnitTraining, unit_series
from .server.state import Plant


def training_problems(clients, augmenters, plant, step_sizes):
    """Every unit's problem of gradient training on pooled records, and its step sizes.

    Parameters
    ----------
    clients, augmenters : dict of str to object
        Fitted models and trained corrections of the units.
    plant : PlantData
        Their records.
    step_sizes : StepSizes
        Of the server.

    Returns
    -------
    dict of str to tuple (AugmentedProblem, Rates)
    """
    constant = any(U is not None for U in plant.inputs)
    units = {}
    for name, Y, U in zip(plant.names, plant.outputs, plant.inputs, strict=True):
        local = local_features(clients[name], Y, U, plant.starts)
        series = unit_series(clients[name], Y, U, plant.starts, local, augmenters[name])
        units[name] = UnitTraining.start(clients[name].model, series, constant)
    local_models = {name: unit.local_model(relay=True, stepwise=False) for name, unit in units.items()}
    plans = Plant.of(local_models).plans(step_sizes, "moments")
    planned = {name: unit.planned(plans[name]) for name, unit in units.items()}
    return {name: (unit.problem, unit.rates) for name, unit in planned.items()}
