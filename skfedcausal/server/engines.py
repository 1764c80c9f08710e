"""Servers whose plant an engine of your own learns: links, tests, intervals, forecasts, changes and checks come of it."""

from abc import abstractmethod

from .dynamics import Plant
from .estimation.estimate import Climb
from .estimation.evidence import BlockEstimates
from .fitting import Learned, keep, with_knowledge
from .joint import JointRecord
from .lagged.misfit import misfit_table
from .links.engines import Engine
from .links.questions import LinkQuestions
from .prediction import OperatingPoint

__all__ = ["BlockEstimates", "Climb", "Engine", "EngineServer", "JointRecord", "Learned", "OperatingPoint", "Plant"]


class EngineServer(LinkQuestions):
    """Base of servers that learn a plant without inputs by a method of their own; a subclass defines :meth:`learned`.

    Attributes
    ----------
    plant_ : Plant
        What was learned: ``A`` (p, n, n), ``B`` (q + 1, n, k), ``Q`` (n, n).
    engine_ : Engine
        Pairs of units and the estimates of their blocks.
    links_ : DataFrame
        See :class:`~skfedcausal.LikelihoodServer`, as all attributes that are not here.

    See Also
    --------
    skfedcausal.LikelihoodServer : The engines that come with the library.
    """

    alpha: float = 0.05
    margin: float = 0.1
    correction = "auto"
    covariance = "information"
    forbidden = required = delays = None
    likelihood = "whittle"
    fix_local = looks_for_all_drivers = shares_sensors = False
    tests_links = True

    @abstractmethod
    def learned(self, record):
        """Learn the plant of a record.

        Parameters
        ----------
        record : JointRecord
            Of all units: ``record.scores.series`` (n_samples, n) are their centred states as each row measures them,
            ``record.scores.noise`` the covariances of the errors of these by unit, ``record.starts`` first rows of
            episodes, ``record.partition`` who has which states.

        Returns
        -------
        learned : Learned
        engine : Engine
        """

    def fit(self, messages):
        """Learn the plant.

        Parameters
        ----------
        messages : dict of str to StateMessage
            One of each unit, all over the same rows.

        Returns
        -------
        self : EngineServer

        Raises
        ------
        ValueError
            For plants with inputs, and for records with gaps.
        """
        record = with_knowledge(self, JointRecord.from_messages(messages))
        if record.u is not None or not record.is_constant:
            what = "inputs" if record.u is not None else "gaps"
            raise ValueError(
                f"{type(self).__name__} learns plants without inputs from complete records, and this one has {what}. "
                "Take a LikelihoodServer."
            )
        learned, self.engine_ = self.learned(record)
        keep(self, record, learned)
        self.misfit_, self.alone_, self.benefit_ = misfit_table(record.names, None), (), None
        self.judge_later(messages)
        return self
