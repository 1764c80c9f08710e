"""A plant that was learned in blocks: it runs along its links."""

from dataclasses import dataclass, field, replace
from typing import Any

from scipy.sparse import csr_array

from ..dynamics import Plant
from .filter import LargeFilter
from .gaps import LargeFilterWithGaps, are_stable_alone


@dataclass(frozen=True, eq=False)
class SparsePlant(Plant):
    """A plant of one lag whose matrices are zero but along its links."""

    matrices: Any = field(kw_only=True)  # the `LargePlantMatrices` of its filter

    def with_first_lag(self, A, B):
        """The same plant with other coefficients (n, n) and (n, k)."""
        return replace(super().with_first_lag(A, B), matrices=replace(self.matrices, A=csr_array(A)))

    def run(self, record):
        """Filter over a record, a `LargeFilter` where each unit can be followed on its own."""
        if record.is_constant and record.determined.all():
            return LargeFilter(self.matrices, record, self.drive())
        if self._follows(record):
            return LargeFilterWithGaps(self.matrices, record, self.drive())
        return super().run(record)

    def smooth(self, record, **settings):
        """States given a whole record (n_samples, n), and covariances of each unit's states."""
        if not self._follows(record):
            return super().smooth(record, **settings)
        return LargeFilterWithGaps(self.matrices, record, self.drive()).smoothed(**settings)

    def _follows(self, record):
        """Whether a record has gaps, and the units can be followed through them."""
        return not record.is_constant and are_stable_alone(self.matrices.A, record.partition)
