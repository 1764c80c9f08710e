"""How much work a fit may take."""

from time import perf_counter

_RATE = 2e9  # operations a second of the machine that the costs were measured on
_CLOCK = 4.0  # times the budget after which the clock stops what the count did not


class Budget:
    """Seconds of work, counted in operations: what is learned does not depend on the machine's load."""

    def __init__(self, max_time, whole=None):
        self.max_time, self._whole = max_time, whole
        self._left, self._stop = max_time * _RATE, perf_counter() + _CLOCK * max_time
        self.stopped_by_clock = False

    def part(self, share):
        """A budget for the next part of the work, a share of what is left; what it does not take stays."""
        return Budget(share * max(self._left, 0.0) / _RATE, self)

    def spend(self, n_operations):
        """Take some operations off."""
        self._left -= n_operations
        self.stopped_by_clock |= perf_counter() > self._stop
        if self._whole is not None:
            self._whole.spend(n_operations)

    @property
    def is_spent(self):
        """Whether there is nothing left."""
        return self._left <= 0 or self.stopped_by_clock
