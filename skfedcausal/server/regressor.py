"""A nonlinear model of the whole plant: any scikit-learn regressor from all states to all next states."""

from sklearn.neural_network import MLPRegressor
from sklearn.utils._param_validation import HasMethods

from .moments import MomentServer


class RegressorServer(MomentServer):
    """Learns the plant as ``x_s[t] = f_s(x[t-1])`` with any scikit-learn regressor (eq. 5 of [1]_).

    The labels are the units' next states. The paper's, the augmented predictions of the units, let the server
    learn what the units can predict themselves and nothing of the coupling. A linear model of the same plant
    is learned beside it for everything that needs one (filter, coherent shifts).

    Parameters
    ----------
    estimator : scikit-learn regressor, default=None
        Predicts several outputs from standardised states. None stands for a multilayer perceptron with 64
        tanh units and early stopping.
    random_state : int or None, default=None
        Of the default network.

    Attributes
    ----------
    transition_, process_cov_, state_slices_, names_
        Of the linear model, see :class:`MomentServer`.

    References
    ----------
    .. [1] Mohanty, Ramanan, Gebraeel, Learning Unknown Interdependencies for Decentralized Root Cause
           Analysis in Nonlinear Dynamical Systems.

    Examples
    --------
    >>> from skfedcausal import FederatedRCADetector, RegressorServer
    >>> from skfedcausal.datasets import make_nonlinear_plant
    >>> nominal = make_nonlinear_plant(n_samples=2500, size=0, random_state=0).data
    >>> detector = FederatedRCADetector(server=RegressorServer(random_state=0)).fit(nominal)
    >>> faulty = make_nonlinear_plant(n_samples=150, roots=[0], random_state=1)
    >>> detector.attribute(faulty.data, start=100, end=110).client[0]
    'unit0'
    """

    _parameter_constraints = {
        "estimator": [HasMethods(["fit", "predict"]), None],
        "random_state": ["random_state"],
    }

    def __init__(self, estimator=None, *, random_state=None):
        self.estimator = estimator
        self.random_state = random_state

    @property
    def regressor(self):
        """Regressor to clone and fit."""
        if self.estimator is not None:
            return self.estimator
        return MLPRegressor(
            hidden_layer_sizes=(64,),
            activation="tanh",
            alpha=1e-4,
            learning_rate_init=3e-3,
            batch_size=128,
            early_stopping=True,
            n_iter_no_change=10,
            tol=1e-3,
            max_iter=150,
            random_state=0 if self.random_state is None else self.random_state,
        )
