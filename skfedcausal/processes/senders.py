"""How tasks reach the processes of a backend of joblib: by joblib itself, whichever backend it is told to use."""

import warnings
from concurrent.futures import BrokenExecutor
from copy import copy

from joblib import Parallel, delayed
from joblib.parallel import LokyBackend, get_active_backend


class Sender:
    """Calls to so many processes or workers of the backend that joblib is told to use, which are kept between them."""

    def __init__(self, n_jobs):
        backend = copy(get_active_backend()[0])  # which nobody else starts and ends
        self._parallel = Parallel(n_jobs=n_jobs, backend=backend, batch_size=1)
        self.is_over = False

    @property
    def is_here(self):
        """Whether calls go to processes of loky: within one of them joblib has none to give."""
        return isinstance(self._parallel._backend, LokyBackend)

    def start(self):
        """Be ready for calls."""
        self._parallel.__enter__()

    def end(self):
        """Send nothing more."""
        self.is_over = True

    def stop(self):
        """Let go of the processes."""
        self._parallel.__exit__(None, None, None)

    def results(self, calls):
        """Results of calls (function, *arguments), which are asked for as processes become free.

        Of those before the end where nothing is to be sent any more. Where a process was killed, as for want of
        memory, all that was asked for is done here.
        """
        asked, calls = [], iter(calls)

        def sent():
            while not self.is_over and (call := next(calls, None)) is not None:
                asked.append(call)
                yield delayed(call[0])(*call[1:])

        try:
            return self._parallel(sent())
        except BrokenExecutor:
            warnings.warn(
                "A process that learned a part of the plant was killed, by the system for want of memory perhaps; its "
                "part is learned in this process. The result is the same. Give fewer processes (n_jobs).",
                stacklevel=2,
            )
            return [function(*arguments) for function, *arguments in [*asked, *calls]]
