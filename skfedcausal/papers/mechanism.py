"""Noise inside gradient training: the papers' protocol, and a trusted server that hides units from each other."""

from dataclasses import dataclass

from sklearn.utils._param_validation import StrOptions

from ..bases import POSITIVE
from ..privacy.mechanism import GaussianMechanism
from ..privacy.promise import gradient_statement, paper_statement, with_voids


@dataclass(kw_only=True, eq=False, repr=False)
class TrainingMechanism(GaussianMechanism):
    """Gaussian noise inside training by a :class:`~skfedcausal.papers.GradientServer`, in place of noise on the record.

    Parameters
    ----------
    epsilon, delta, mu, clip_norm, event_radius, protects, noise, accountant, random_state
        As in :class:`~skfedcausal.GaussianMechanism`.
    protocol : {"one-shot", "paper"}, default="one-shot"
        "paper", for comparison: measurements are clipped, and a unit adds noise to the states of every time
        step and round of gradient training by the papers' formulas, `epsilon` and `delta` being those of
        each message. That is no promise about a run. The statement says so, and gives the total that the
        papers state beside the exact one for a correction theta that does not depend on the record.
    trust : {"none", "server"}, default="none"
        "server": the server of gradient training (a ``GradientServer``, or a ``RegressorServer`` with augmented labels)
        may see the units' states, units must not see each other's. Measurements stay as they are, and the gradients
        that the server sends are clipped and get noise; `epsilon` and `delta` are those of the whole training.
    gradient_clip : float, default=None
        For ``trust="server"``: largest norm of the gradient about one time step that a unit is sent. Public.

    See Also
    --------
    skfedcausal.GaussianMechanism : Noise on the record, which costs nothing more however much is learned from it.

    Examples
    --------
    >>> from skfedcausal.papers import TrainingMechanism
    >>> TrainingMechanism(epsilon=1.0, delta=1e-5, clip_norm=3.0, protocol="paper").place
    'messages'
    """

    protocol: str = "one-shot"
    trust: str = "none"
    gradient_clip: float | None = None

    _parameter_constraints = {
        **GaussianMechanism._parameter_constraints,
        "protocol": [StrOptions({"one-shot", "paper"})],
        "trust": [StrOptions({"none", "server"})],
        "gradient_clip": [POSITIVE, None],
    }

    @property
    def place(self):
        """Place of the noise: added to the "record", to the "messages" of training or to its "gradients"."""
        return "messages" if self.protocol == "paper" else "gradients" if self.trust == "server" else "record"

    def statement(self, spent, names, n_samples, left="everything", *, drawn=True):
        """The promise in words: unit, relation, bound, composition, what is not covered."""
        if self.place == "messages":
            return paper_statement(self, spent, names)
        if self.place == "gradients":
            return with_voids(self.account.charges_of(names), gradient_statement(self, spent))
        return super().statement(spent, names, n_samples, left, drawn=drawn)
