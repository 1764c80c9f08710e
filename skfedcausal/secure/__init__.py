"""Secure sums: the server learns sums of products between units and no rows; a dealer hands out the masks.

The protocol is Beaver's commodity-based secure inner product [1]_, as for regressions on vertically partitioned
data [2]_, with the masks of the shares known to the dealer alone, so that a unit needs one key only. In the ring of
whole numbers modulo 2^64, for units m with fixed-point series ``x_m`` and sums over rows ``<x, y>``:

1. unit m draws a mask ``a_m`` from the key that it shares with the dealer and sends ``d_m = x_m - a_m``;
2. unit m gets the ``d_n`` of all others and sends ``<d_n, a_m> + r_mn`` with masks ``r_mn`` from the same key;
3. the dealer, who gets no series at all, sends ``<a_m, a_n> - r_mn - r_nm``;
4. the server adds ``<d_m, d_n>`` and everything about a pair up to ``<x_m, x_n>``.

All that the server gets but the sums is uniform. What holds, and for whom:

- all parties follow the protocol (semi-honest);
- the dealer colludes with nobody: together with the server, or with any one unit, it has the rows;
- the server together with all units but one learns what the sums tell: of each series of the one left at most
  ``(2 L + 1) P`` linear equations, for products over up to L rows with the P series of the others, beside its own
  sums. A unit answers only where that is a small enough part of its rows, and once for a record.

References
----------
.. [1] Beaver (1997), Commodity-based cryptography, Proceedings of the 29th ACM Symposium on Theory of Computing.
.. [2] Gascon, Schoppmann, Balle, Raykova, Doerner, Zahur, Evans (2017), Privacy-preserving distributed linear
       regression on high-dimensional data, Proceedings on Privacy Enhancing Technologies 2017(4).
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .client import SumsAccount, SumsWorker
    from .dealer import Dealer
    from .server.sums import SecureSumsServer

_HOMES = {"Dealer": ".dealer", "SumsAccount": ".client", "SumsWorker": ".client", "SecureSumsServer": ".server.sums"}
__all__ = ["Dealer", "SecureSumsServer", "SumsAccount", "SumsWorker"]


if not TYPE_CHECKING:  # which would take every name for one that is there

    def __getattr__(name):
        """The roles when they are asked for: they import the arithmetic that is here."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOMES[name], __name__), name)
