"""How much work a fit may take."""

from time import perf_counter

_RATE = 2e9  # operations a second of the machine that the costs were measured on
_CLOCK = 4.0  # times the budget after which the clock stops what the count did not


class Budget:
    """Seconds of work, counted in operations: what is learned does not depend on the machine's load."""

    def __init__(self, max_time):
        self._left, self._stop = max_time * _RATE, perf_counter() + _CLOCK * max_time
        self._total = self._left
        self.stopped_by_clock = False

    def spend(self, n_operations):
        """Take some operations off."""
        self._left -= n_operations
        self.stopped_by_clock |= perf_counter() > self._stop

    def portion(self, share):
        """What is left when a share of all is gone from here on."""
        return max(self._left - share * self._total, 0.0)

    def is_below(self, level):
        """Whether no more than that is left."""
        return self._left <= level or self.stopped_by_clock

    @property
    def is_spent(self):
        """Whether there is nothing left."""
        return self._left <= 0 or self.stopped_by_clock
