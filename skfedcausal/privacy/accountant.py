"""The account of what every release cost, shared by everything that touches the same data."""

import hashlib
import secrets
import threading
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ..arguments import check_kind
from .calibration import PrivacyBudgetError, check_promise, composed_epsilon
from .promise import reasons, same_clients

if TYPE_CHECKING:
    from .mechanism import Release

_ADVICE = "Use less epsilon per release, or release less often."
_NAMES = (Sequence, Set, Mapping, np.ndarray, pd.Index)  # that names of units come in
_SLACK = 1e-12  # relative, for rounding in the root finder


@dataclass(frozen=True)
class Scope:
    """Subject of a promise. Promises about different things do not add up.

    Attributes
    ----------
    unit : {"event", "window", "client", "flag pair"}
        What is protected: all measurements of a client at one time step, at `window` consecutive ones, or at
        all of them; or one pair of flags.
    relation : {"replace", "zero_out"}
        Neighbouring records differ in one unit that has other values, or its centre in place of values.
    window : int or None

    Examples
    --------
    >>> from skfedcausal.privacy import Scope
    >>> Scope('event') == Scope('event', 'replace')
    True
    """

    unit: str
    relation: str = "replace"
    window: int | None = None

    def steps(self, n_samples: int) -> int:
        """Time steps of a record that belong to one protected unit.

        Parameters
        ----------
        n_samples : int

        Returns
        -------
        int
        """
        steps: Any = {"window": self.window, "client": n_samples}.get(self.unit, 1)
        return min(steps, n_samples)

    def count(self, n_samples: int) -> int:
        """Protected units that make up a whole record.

        Parameters
        ----------
        n_samples : int

        Returns
        -------
        int
        """
        return -(-n_samples // max(self.steps(n_samples), 1))

    def __str__(self):
        unit = f"window of {self.window} time steps" if self.unit == "window" else self.unit
        return f"{unit} ({self.relation})"


def check_scope(scope):
    """Refuse what no noise on measurements can protect."""
    known = scope.unit in ("event", "window", "client") and scope.relation in ("replace", "zero_out")
    rows = scope.window
    if not known or not (rows is None or (isinstance(rows, Integral) and not isinstance(rows, bool) and int(rows) > 0)):
        raise ValueError(
            f"{scope!r}: give unit='event', 'window' or 'client', relation='replace' or 'zero_out', and a window of so "
            "many time steps."
        )
    if (scope.unit == "window") != (rows is not None):
        raise ValueError(f"unit={scope.unit!r}, window={rows}: a window belongs to unit='window' only.")


@dataclass(frozen=True)
class Charge:
    """Cost of one release about one client.

    Attributes
    ----------
    client, channel, mechanism : str
    mu : float
        Of a Gaussian release; infinite for one without noise; zero for responses.
    epsilon : float
        Of each randomised response.
    n_categories, count : int
        Of the responses; the number of releases otherwise.
    sensitivity, noise_std : float
    bound : str
        Where the bound behind the sensitivity came from: "public" or "data".
    period : int
        Charges of different periods are about different time steps.
    time : str
    release : str
        What it pays for, where an account has to know that.
    record : str
        Names of the columns that it released, by their numbers: the same under another name are the same client.
    sampler : str
        What drew the noise.
    void : str
        What makes the release promise nothing: of "data" (bound from the record), "seed", "radius", "delta" and
        "account" (earlier charges are gone).

    Examples
    --------
    >>> from skfedcausal.privacy import Charge
    >>> Charge('boiler', 'measurement', mu=0.5).mechanism
    'gaussian'
    """

    client: str
    channel: str
    mechanism: str = "gaussian"
    mu: float = 0.0
    epsilon: float = 0.0
    n_categories: int = 2
    count: int = 1
    sensitivity: float = np.nan
    noise_std: float = np.nan
    bound: str = "public"
    period: int = 0
    time: str = ""
    release: str = ""
    record: str = ""
    sampler: str = ""
    void: str = ""

    def __post_init__(self):
        if not (self.mu >= 0 and self.epsilon >= 0 and self.count >= 0):
            raise ValueError(f"A charge cannot be negative: mu={self.mu}, epsilon={self.epsilon}, count={self.count}.")


@dataclass(frozen=True)
class PrivacySpent:
    """Privacy spent, for the client with the largest epsilon.

    Attributes
    ----------
    epsilon, delta : float
        Infinite and zero if no noise was added.
    mu : float
        Of the Gaussian releases.
    unit : str
        What is protected; "none" if nothing is.
    per_client : dict of str to dict
        ``epsilon`` and ``mu`` of every client.

    Examples
    --------
    >>> from skfedcausal import FederatedGrangerEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> X, _ = make_granger_plant(2, n_samples=500, random_state=0)
    >>> FederatedGrangerEstimator().fit(X).privacy_spent_.epsilon  # without noise nothing is promised
    inf
    """

    epsilon: float
    delta: float
    mu: float
    unit: str
    per_client: Mapping = field(default_factory=dict)


class PrivacyAccountant:
    """Adds up what everything that was released about some data has cost, and refuses what is too much.

    Give one accountant to every estimator that learns from the same data. It is shared by reference: clones
    of an estimator, folds of a cross-validation and refits charge the same account. It cannot be pickled,
    because a copy in another process would count on its own and its charges would be lost.

    Parameters
    ----------
    epsilon : float, default=None
        Budget of every client. None: no cap.
    delta : float, default=None
        At which `epsilon` is meant; needed with `epsilon`.

    See Also
    --------
    GaussianMechanism : What charges it.

    Notes
    -----
    Composition is exact: Gaussian releases add up to ``mu^2 = sum_i mu_i^2``, randomised responses through
    the distribution of their losses. Budgets may depend on what was released before as long as all releases
    are Gaussian [1]_; parameters of randomised responses have to be fixed beforehand.

    The accountant remembers noised records. Whoever asks for the same record with the same noise again gets
    the copy that was released already, and nothing is charged.

    Every release counts in full for every time step, unless :meth:`new_period` says that the data that
    follow are about other time steps.

    References
    ----------
    .. [1] Smith, Thakurta (2022), Fully adaptive composition for Gaussian differential privacy,
           arXiv:2210.17520.

    Examples
    --------
    >>> from skfedcausal import PrivacyAccountant
    >>> from skfedcausal.privacy import Charge, Scope
    >>> account = PrivacyAccountant()
    >>> account.charge([Charge("boiler", "measurement", mu=0.3)] * 4, Scope("event"))
    >>> spent = account.spent(delta=1e-5)
    >>> round(spent.mu, 6), round(spent.epsilon, 3)
    (0.6, 2.445)
    """

    def __init__(self, epsilon: float | None = None, delta: float | None = None):
        if epsilon is not None and delta is None:
            raise ValueError("A budget `epsilon` needs the `delta` at which it is meant.")
        check_promise(epsilon, delta)
        self.epsilon: Any = epsilon
        self.delta: Any = delta
        self.scope: Scope | None = None
        self.is_trial = False  # of releases that nobody gets, and whose noise may be repeated
        self.period = 0
        self._charges: list[Charge] = []
        self._releases: dict = {}
        self._unused: set[str] = set()  # releases that are paid for and not out
        self._key = secrets.token_bytes(32)
        self._lock = threading.RLock()

    # shared by reference, never copied

    def __sklearn_clone__(self):
        return self

    __copy__ = __sklearn_clone__

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        raise TypeError(
            "A PrivacyAccountant cannot be pickled: a copy in another process would lose its charges. Run in "
            "this process (n_jobs=None, or joblib's threading backend). To save a fitted estimator, take the "
            "mechanism off it first: est.set_params(privacy=None)."
        )

    def __repr__(self):
        cap = "no cap" if self.epsilon is None else f"epsilon={self.epsilon}, delta={self.delta}"
        return f"<PrivacyAccountant: {len(self._charges)} charges, {cap}>"

    # -- spending --------------------------------------------------------------------------------

    def charge(self, charges: Sequence[Charge], scope: Scope, *, repeated: bool = False) -> None:
        """Spend, or refuse to before anything is released.

        A release that was paid for and did not come about, as on a full disk, is not charged again.

        Parameters
        ----------
        charges : sequence of Charge
            All of them or none are taken.
        scope : Scope
            What the charges protect.
        repeated : bool, default=False
            Count a charge together with an earlier one that is the same but for its time, so that the table
            does not grow with every batch of a stream.

        Raises
        ------
        PrivacyBudgetError
            If a client's total would exceed the budget.
        ValueError
            If the scope differs from that of earlier charges.
        """
        with self._lock:
            charges = [charge for charge in charges if charge.release not in self._unused]
            if not charges:
                return
            if self.scope not in (None, scope):
                raise ValueError(
                    f"This accountant counts promises per {self.scope}; one per {scope} does not add up with "
                    "them. Use an accountant of its own, or the same unit and relation."
                )
            now = datetime.now(UTC).isoformat(timespec="seconds")
            charges = [replace(charge, period=self.period, time=now) for charge in charges]
            if self.epsilon is not None:
                self._check_budget(charges, scope)
            self.scope = scope
            for charge in charges:
                self._take(charge, scope, repeated)

    def _take(self, charge, scope, repeated):
        for k in reversed(range(len(self._charges) if repeated else 0)):
            earlier = self._charges[k]
            if replace(charge, time=earlier.time, count=earlier.count) == earlier:
                self._charges[k] = replace(earlier, count=earlier.count + charge.count)
                return
        self._keep(charge)

    def _keep(self, charge):
        self._charges.append(charge)
        if charge.release:  # a batch of a stream is remembered by nobody, and pays each time
            self._unused.add(charge.release)

    def _check_budget(self, charges, scope):
        same = same_clients([*self._charges, *charges])
        for client in dict.fromkeys(charge.client for charge in charges):
            before = _of_client(self._charges, same, client)
            after = self._total([*before, *_of_client(charges, same, client)], self.delta, scope)
            if after[0] > self.epsilon * (1 + _SLACK):
                spent = self._total(before, self.delta, scope)[0]
                raise PrivacyBudgetError(
                    f"This release would bring the client {client!r} to epsilon = {after[0]:.4g} at delta = "
                    f"{self.delta:.3g}; the budget is {self.epsilon:.4g}, of which {spent:.4g} is spent. "
                    f"Nothing was released. {reasons(charges) or _ADVICE}"
                )

    def new_period(self) -> int:
        """Declare that from now on records hold only time steps that no record before held.

        One event or window then pays for the releases of one period only; a client pays for all.

        Returns
        -------
        int
            Number of the period.
        """
        with self._lock:
            self.period += 1
            return self.period

    # -- totals ----------------------------------------------------------------------------------

    def spent(
        self, delta: float | None = None, clients: Sequence[str] | None = None, *, times: int = 1
    ) -> PrivacySpent:
        """Privacy spent so far.

        Parameters
        ----------
        delta : float, default=None
            At which epsilon is reported; None: that of the budget. Without either, epsilon is infinite:
            Gaussian noise gives no promise at delta = 0.
        clients : sequence of str, default=None
            None: all that were charged.
        times : int, default=1
            Protected units that change together, each with noise of its own.

        Returns
        -------
        PrivacySpent
        """
        if clients is not None:
            check_kind(clients, "`clients`", _NAMES, "a list of names of units")
        with self._lock:
            charges = [replace(charge, count=times * charge.count) for charge in self._charges]
            return self._spent(charges, self.scope, delta, clients)

    def spent_with(self, charges: Sequence[Charge], scope: Scope, delta: float | None = None) -> PrivacySpent:
        """Privacy that would be spent with these charges in addition; nothing is charged.

        Parameters
        ----------
        charges : sequence of Charge
        scope : Scope
        delta : float, default=None
            As in :meth:`spent`.

        Returns
        -------
        PrivacySpent
        """
        with self._lock:
            charges = [replace(charge, period=self.period) for charge in charges]
            return self._spent([*self._charges, *charges], scope, delta)

    def _spent(self, charges, scope, delta=None, clients=None):
        delta = (self.delta or 0.0) if delta is None else delta
        same = same_clients(charges)
        names = dict.fromkeys(charge.client for charge in charges) if clients is None else clients
        totals = {name: self._total(_of_client(charges, same, name), delta, scope) for name in names}
        per_client = {name: {"epsilon": eps, "mu": mu} for name, (eps, mu) in totals.items()}
        epsilon, mu = max(totals.values(), default=(0.0, 0.0))
        unit = "none" if scope is None else scope.unit
        return PrivacySpent(epsilon, delta, mu, unit, per_client)

    def charges_of(self, clients: Sequence[str]) -> list[Charge]:
        """Charges of some clients.

        Parameters
        ----------
        clients : sequence of str

        Returns
        -------
        list of Charge
        """
        check_kind(clients, "`clients`", _NAMES, "a list of names of units")
        same = same_clients(self._charges)
        names = {same.get(client, client): client for client in reversed(list(clients))}
        return [
            charge if charge.client in clients else replace(charge, client=names[same[charge.client]])
            for charge in self._charges
            if same[charge.client] in names
        ]

    def total_with(self, charges: Sequence[Charge], client: str, delta: float, scope: Scope) -> float:
        """Epsilon of one client's charges together with others about the same numbers.

        Parameters
        ----------
        charges : list of Charge
            Of other accounts.
        client : str
        delta : float
        scope : Scope

        Returns
        -------
        float
        """
        return self._total([*self.charges_of([client]), *charges], delta, scope)[0]

    def _total(self, charges, delta, scope):
        """Epsilon and mu of one client's charges: of its most expensive period where time steps count."""
        parts: dict[int, list] = {}
        together = scope is None or scope.unit == "client"
        for charge in charges:
            parts.setdefault(0 if together else charge.period, []).append(charge)
        epsilon, mu = max((_composed(part, delta) for part in parts.values()), default=(0.0, 0.0))
        return (np.inf, mu) if not self.is_trial and any(charge.void for charge in charges) else (epsilon, mu)

    @property
    def table(self) -> pd.DataFrame:
        """Every charge, a DataFrame: ``time, client, channel, mechanism, sensitivity, noise_std, count, mu,
        epsilon, bound, period``."""
        columns = ["time", "client", "channel", "mechanism", "sensitivity", "noise_std"]
        columns += ["count", "mu", "epsilon", "bound", "period"]
        return pd.DataFrame([vars(charge) for charge in self._charges], columns=columns)

    def __len__(self):
        return len(self._charges)

    # -- memory ----------------------------------------------------------------------------------

    def key_of(self, *parts) -> bytes:
        """Name of a record under which its noised copy is remembered; says nothing without the account.

        Parameters
        ----------
        *parts : arrays and strings
            What makes the record.

        Returns
        -------
        bytes
        """
        digest = hashlib.blake2b(key=self._key)
        for part in parts:
            array = isinstance(part, np.ndarray)
            data = np.ascontiguousarray(part).data if array else memoryview(str(part).encode())
            digest.update(str(data.shape).encode())
            digest.update(data)
        return digest.digest()

    def recall(self, key: bytes) -> "Release | None":
        """Release under a key, or None.

        Parameters
        ----------
        key : bytes

        Returns
        -------
        Release or None
        """
        return self._releases.get(key)

    def turn(self) -> AbstractContextManager[Any]:
        """Context in which nobody else is charged: from looking up a release until it is remembered.

        Returns
        -------
        context manager
        """
        return self._lock

    def room(self, key: bytes, shape: tuple[int, ...]) -> np.ndarray:
        """Array that a noised record is written to before it is remembered.

        Parameters
        ----------
        key : bytes
        shape : tuple of int

        Returns
        -------
        ndarray of that shape
        """
        return np.empty(shape)

    def remember(self, key: bytes, release: "Release") -> None:
        """Keep what was released under a key.

        Parameters
        ----------
        key : bytes
        release : Release
        """
        self._releases[key] = release
        self._unused.discard(key.hex())

    def forget(self) -> None:
        """Drop the remembered records, not the charges: asking for them again will cost again."""
        self._releases = {}


def _of_client(charges, same, client):
    """Charges of a client, and of others about the same numbers."""
    return [charge for charge in charges if same[charge.client] == same.get(client, client)]


def _composed(charges, delta):
    mu = float(np.sqrt(sum(charge.count * float(charge.mu) ** 2 for charge in charges)))
    groups: Counter = Counter()
    for charge in charges:
        if charge.epsilon > 0:
            groups[charge.epsilon, charge.n_categories] += charge.count
    responses = tuple((*key, count) for key, count in groups.items())
    return composed_epsilon(mu, responses, delta), mu
