"""What a fitted plant tells its units about their own states."""

import numpy as np

from ..message.states import SmoothedReply, StateReply
from .joint import JointRecord
from .prediction import PlantFilter, smooth_plant


class StateAnswers:
    """Filter, smoother and replies of a fitted plant; part of :class:`LikelihoodServer`."""

    def __getstate__(self):
        return {**super().__getstate__(), "_run": None}  # no series of the record it was fitted to

    def filter(self, messages):
        """Filter of the whole plant over a record, a `PlantFilter`."""
        return self._filter(self._record(messages))

    def _filter(self, record):
        drive = self._operating_point.drive(self.transition_, self.input_)
        return PlantFilter(self.transition_, self.process_cov_, record, drive)

    def _record(self, messages):
        """Record of the units of `fit`, with their inputs and shifts."""
        record = JointRecord.from_messages(messages, names=self.names_)
        if record.partition.input_sizes != self.partition_.input_sizes:
            raise ValueError(
                f"The units have {record.partition.input_sizes} inputs, in `fit` they had "
                f"{self.partition_.input_sizes}."
            )
        return self._operating_point.placed(record.with_noise_share(self.filter_noise_share_ or 0.0))

    def smoothed(self, messages):
        """Every unit's own states given all units' messages."""
        return self._smoothed(messages, self.unshrunk_transition_, self.unshrunk_input_)

    def _smoothed(self, messages, A, B, **settings):
        record, drive = self._record(messages), self._operating_point.drive(A, B)
        states, covariances = smooth_plant(A, self.process_cov_, record, drive, **settings)
        return {
            name: SmoothedReply(np.ascontiguousarray(states[:, rows]), covariance)
            for (name, rows), covariance in zip(self.state_slices_.items(), covariances, strict=True)
        }

    def replies(self, messages):
        """What every unit is told about its own states."""
        record = self._record(messages)
        run, self._run = self._run, None
        if run is None or not run.is_about(record):
            run = self._filter(record)
        own = self.partition_.input_mask(np.zeros(0, dtype=int), True)
        foreign = np.where(own, 0.0, self.input_)
        off_diagonal = np.where(self.partition_.block_diagonal, 0.0, self.transition_)
        drive = self._operating_point.drive(self.transition_, foreign)
        cross_terms = run.carried_to_units(off_diagonal, drive)
        level = foreign @ self.input_level_ if self.partition_.n_inputs else None
        replies = {}
        for (name, rows), cross_term in zip(self.state_slices_.items(), cross_terms, strict=True):
            inputs = self.input_slices_[name]
            replies[name] = StateReply(
                cross_term,
                self.transition_[rows, rows],
                self.process_cov_[rows, rows],
                input_matrix=self.input_[rows, inputs] if inputs.stop > inputs.start else None,
                input_level=None if level is None else level[rows],
                noise_share=None if messages[name].unpredicted is None else self._noise_share,
            )
        return replies

    @property
    def _noise_share(self):
        """Share of noise as replies carry it."""
        share = self.filter_noise_share_
        return None if share is None else np.array([share])
