"""How much work a fit may take."""

from time import perf_counter

_RATE = 2e9  # operations a second of the machine that the costs were measured on
_CLOCK = 4.0  # times the budget after which the clock stops what the count did not


class Budget:
    """Seconds of work, counted in operations: what is learned does not depend on the machine's load."""

    def __init__(self, max_time, whole=None):
        self.max_time, self._whole = max_time, whole
        self._left, self._stop = max_time * _RATE, perf_counter() + _CLOCK * max_time
        self._is_late = False

    def part(self, share):
        """A budget for the next part of the work, a share of what is left; what it does not take stays."""
        return Budget(share * max(self._left, 0.0) / _RATE, self)

    def spend(self, n_operations):
        """Take some operations off."""
        self._left -= n_operations
        if self._whole is not None:
            self._whole.spend(n_operations)
        else:
            self._is_late |= perf_counter() > self._stop

    def affords(self, n_operations):
        """Whether so much work is left; what cannot be begun ends the rest."""
        if n_operations > self._left:
            self.spend(max(self._left, 0.0))
            return False
        return True

    @property
    def stopped_by_clock(self):
        """Whether the work as a whole took far longer than it was counted as."""
        return self._is_late if self._whole is None else self._whole.stopped_by_clock

    @property
    def is_spent(self):
        """Whether there is nothing left."""
        return self._left <= 0 or self.stopped_by_clock
