"""What a move of inputs did to a plant: a record beside what it would have been, row by row and in total."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..arguments import check_choice
from ..beside import beside
from ..containers.layout import listed
from ._interventions import CANNOT_TELL, EFFECT, NO_MOVE, NOT_YET, NOTHING, SAY_WHEN, two_sided, window_rows
from ._replay import replayed_record
from .tuning import TUNING

_WORDS = {"did": "the move of {}", "would": "other values of {} would have"}
_SAID_OF = {
    "did": {
        NOTHING: "It hardly moved {}.",
        NOT_YET: "It could not show yet in {}.",
        CANNOT_TELL: "What it did to {} cannot be determined.",
    },
    "would": {
        NOTHING: "They would hardly have moved {}.",
        NOT_YET: "They could not have shown yet in {}.",
        CANNOT_TELL: "What they would have done to {} cannot be determined.",
    },
}


@dataclass(frozen=True, eq=False)
class Impact:
    """What a move did, the answer of :meth:`~skfedcausal.FederatedCounterfactualEstimator.impact`.

    Attributes
    ----------
    table : DataFrame
        One row per time and column: ``time, column, factual, counterfactual, effect, low, high, effect_low,
        effect_high``. The effect is what was recorded less what would have been; `low` and `high` are the band of
        the counterfactual. All rows of the record, before the window without an effect.
    total : DataFrame
        One row per column, over the rows of the window: ``column``; ``total, low, high``, the sum of the effect;
        ``mean, mean_low, mean_high``, of a row; ``relative``, the mean beside that of the counterfactual;
        ``verdict``: "no effect to be seen" where the band lies within the margin around zero, "effect" where it leaves
        out zero, "not yet" where that is so and an effect shows only in later rows, "there was no move" where the
        record has the values that were given, "cannot tell" else; ``trust`` as of ``whatif``; ``shows``, the time
        from which an effect is a fifth of the most that it is in the window. The band of a sum of responses follows
        their errors through all rows; that of a plant takes those of all rows to be of one sign, as of a gain.
    summary : str
        The sentence, and others about columns at a limit and inputs whose timing nobody has said.
    inputs : tuple of str
        Inputs that were moved.
    window : tuple
        Times of the first and the last row of the window.
    confidence : float
    question : {"did", "would"}
        "did": effects are what was recorded less what would have been. "would": what would have been less what was
        recorded.

    Examples
    --------
    >>> from skfedcausal import FederatedCounterfactualEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> X, truth = make_granger_plant(2, n_inputs=1, input_links=[(0, 1)], random_state=0)
    >>> est = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
    >>> found = est.impact(X, {"unit0__u0": 0.0}, (1000, 1030), inputs=truth.inputs)
    >>> found.total["verdict"].isin(["effect", "no effect to be seen", "cannot tell"]).all()
    np.True_
    """

    table: pd.DataFrame
    total: pd.DataFrame
    summary: str
    inputs: tuple
    window: tuple
    confidence: float
    question: str = "did"

    @property
    def other(self):
        """What is beside the record, in words."""
        return "without the move" if self.question == "did" else "with other inputs"

    @property
    def effect_is(self):
        """What effects are, in words."""
        parts = "what was recorded", f"what would have been {self.other}"
        return " less ".join(parts if self.question == "did" else parts[::-1])

    def plot(self, column=None, **settings):
        """Three panels as :class:`~skfedcausal.displays.ImpactDisplay` draws them.

        Parameters
        ----------
        column : str, default=None
            None for the column with the clearest effect.
        **settings
            Of :meth:`~skfedcausal.displays.ImpactDisplay.from_impact`.

        Returns
        -------
        ImpactDisplay
        """
        return beside("ImpactDisplay").from_impact(self, column=column, **settings)

    def report(self, path, *, title="What the move did"):
        """Write a page for people who were not there: the sentence, the totals, pictures.

        Parameters
        ----------
        path : str or Path
            HTML file.
        title : str

        Returns
        -------
        Path
        """
        return beside("impact_page")(self, title).write(path)


def found_impact(effects, asking, do, window, *, loops, limits, confidence, margin, question):
    """The :class:`Impact` of a move within a window of rows; `effects` and `asking` as of :func:`replayed_record`."""
    if margin is None or not margin >= 0:
        raise ValueError(f"Got margin={margin!r}; give a share of a standard deviation, at least 0.")
    check_choice("question", question, ("did", "would"))
    if hasattr(do, "items"):
        _check_inputs(do, effects.spec.written.names)
        moved = {name: _within(value, window, name) for name, value in do.items()}
    else:
        moved = do  # `whatif` says what is wrong with it
    how = {"loops": loops, "limits": limits, "split": False, "sensors": "controller"}
    replay = replayed_record(effects, asking, moved, confidence=confidence, window=window, **how)
    found, error = replay.table, replay.error
    told = found.groupby("column", sort=False)[["verdict", "trust"]].first()
    still = (told["verdict"] == NO_MOVE).all()
    table = _as_impact(found.drop(columns=["verdict", "trust"]), question)
    times = table["time"].drop_duplicates()
    rows = window_rows(window, len(times), pd.Index(times))
    place = np.repeat(np.arange(len(times)), len(table) // len(times))
    inside, later = table[np.isin(place, np.r_[rows])], table[place >= rows.stop]
    half = two_sided(confidence) * error
    sd = table.groupby("column", sort=False)["factual"].std()
    total = _totals(inside, later, half, sd, margin, effects.rows_to_show(loops), question)
    told = told.reindex(total["column"])
    doubted = total["column"].isin(replay.doubted) & (total["verdict"] == CANNOT_TELL)
    total.loc[doubted, "verdict"] = SAY_WHEN
    total["trust"] = told["trust"].to_numpy()
    total["shows"] = _shown(inside).where((total["verdict"] == EFFECT).to_numpy()).to_numpy()
    edges = times.iloc[rows.start], times.iloc[rows.stop - 1]
    if still:
        total["verdict"] = NO_MOVE
        summary = (
            f"From {edges[0]} to {edges[1]} there was no move of {listed(tuple(do))}: the record has the values that "
            "were given, so that there is nothing to report."
        )
    else:
        doubts = [effects.timing_in_doubt(total.loc[doubted, "column"])] if doubted.any() else []
        summary = " ".join([_sentence(total, tuple(do), edges, confidence, question), *replay.notes, *doubts])
    return Impact(table, total, summary, tuple(do), edges, confidence, question)


def _check_inputs(do, known):
    """Refuse names that are no inputs: a sensor that is held in a window would have to be let go after it."""
    unknown = [name for name in do if name not in known]
    if unknown:
        raise ValueError(
            f"Got unknown input {unknown[0]!r}; known inputs are {listed(known)}. What a move did is reported for "
            "inputs, by their names 'unit__input'; ask `whatif` about sensors that are held."
        )


def _within(value, window, name):
    """A function of a recorded input that replaces the rows of a window."""

    def replaced(series):
        rows = window_rows(window, len(series), series.index)
        part = series.iloc[rows]
        new = value(part.copy()) if callable(value) else value
        if np.ndim(new) and len(new) == len(series) and not callable(value):
            new = new.iloc[rows] if isinstance(new, pd.Series) else new[rows]
        if np.ndim(new) and len(new) != len(part):
            raise ValueError(
                f"Got {len(new)} values for input {name!r} in a window of {len(part)} rows; give a number, one value "
                "for each row of the window or of the record, or a function of the recorded series there."
            )
        if isinstance(new, pd.Series) and isinstance(part.index, pd.DatetimeIndex) and not new.index.equals(part.index):
            raise ValueError(f"The series for input {name!r} has other times than the window.")
        is_words = not pd.api.types.is_numeric_dtype(series)
        if isinstance(new, str) and not is_words:
            raise ValueError(f"Input {name!r} was given {new!r}, but it is a number in the record.")
        other = series.astype(object) if is_words else series.copy()
        new = np.asarray(new) if np.ndim(new) else new
        other.iloc[rows] = new if is_words else np.asarray(new, dtype=float)  # of truth values, too
        return other

    return replaced


def _as_impact(found, question):
    """The table of `whatif` with the effect that was asked for, and its band."""
    factual = found["factual"]
    if question == "would":
        return found.assign(effect_low=found["low"] - factual, effect_high=found["high"] - factual)
    edges = {"effect_low": factual - found["high"], "effect_high": factual - found["low"]}
    return found.assign(effect=-found["effect"], **edges)


def _totals(inside, later, half, sd, margin, needed, question):
    """Sums and means of the effect over the rows of a window by column, with verdicts.

    The band of a mean is `half` to either side, and within the mean of the bands of the rows. Where an effect shows
    only in rows after the window, or after more rows than are left of it, it is not there yet.
    """
    groups = inside.groupby("column", sort=False)
    before = "factual" if question == "would" else "counterfactual"
    sums = groups[["effect", "effect_low", "effect_high", before]].sum(min_count=1)
    size = groups.size()
    sums.loc[groups["effect_low"].apply(lambda x: x.isna().any()), ["effect_low", "effect_high"]] = np.nan
    mean, half = sums.div(size, axis=0), half.reindex(sums.index)
    low = np.maximum(mean["effect_low"], mean["effect"] - half)
    high = np.minimum(mean["effect_high"], mean["effect"] + half)
    small = margin * sd.reindex(sums.index)
    most = _largest(inside).reindex(sums.index)
    after = _largest(later).reindex(sums.index).fillna(0.0)
    n_rows = (inside["effect"] != 0).groupby(inside["column"], sort=False).sum().reindex(sums.index)
    soon = (most == 0) | (n_rows < needed) | ((after > TUNING.impact_later * most) & (after > small))
    clear = np.maximum(low, -high) > TUNING.impact_speak * small
    none = (low >= -small) & (high <= small)
    verdict = np.select([(most == 0) | (none & soon), none, clear], [NOT_YET, NOTHING, EFFECT], CANNOT_TELL)
    columns = {"column": sums.index, "total": sums["effect"], "low": low * size, "high": high * size}
    columns |= {"mean": mean["effect"], "mean_low": low, "mean_high": high}
    level = mean[before].abs()
    columns |= {"relative": mean["effect"] / level.where(level > 0), "verdict": verdict}
    return pd.DataFrame(columns).reset_index(drop=True)


def _shown(inside):
    """Time of the first row of a window in which an effect is a fifth of the most that it is there, by column."""
    size = inside["effect"].abs()
    return (
        inside[size >= TUNING.impact_fifth * size.groupby(inside["column"]).transform("max")]
        .groupby("column", sort=False)["time"]
        .first()
        .reindex(inside["column"].unique())
    )


def _largest(rows):
    """Largest distance from zero that an effect or an end of its band has, by column."""
    ends = rows[["effect", "effect_low", "effect_high"]].abs().max(axis=1)
    return ends.groupby(rows["column"], sort=False).max()


def _sentence(total, inputs, edges, confidence, question):
    """What the move did, or what other inputs would have done, in one sentence or more."""
    what = f"From {edges[0]} to {edges[1]} {_WORDS[question].format(listed(inputs))}"
    clear = total[total["verdict"] == EFFECT]
    clear = clear.assign(size=(clear["mean"] / (clear["mean_high"] - clear["mean_low"]).where(lambda w: w > 0)).abs())
    clear = clear.sort_values("size", ascending=False, na_position="first")
    parts = [
        f"{'raised' if row.mean > 0 else 'lowered'} {row.column} by {abs(row.mean):.4g} a row ({confidence:.0%} band "
        f"{min(abs(row.mean_low), abs(row.mean_high)):.4g} to {max(abs(row.mean_low), abs(row.mean_high)):.4g}), "
        f"{abs(row.total):.4g} in total"
        for row in clear.head(TUNING.impact_named).itertuples(index=False)
    ]
    more = f"; and moved {len(clear) - TUNING.impact_named} other columns" if len(clear) > TUNING.impact_named else ""
    nothing = "had no effect that this record shows" if (total["verdict"] == NOTHING).all() else "had no clear effect"
    words = [f"{what} {'; '.join(parts) or nothing}{more}."]
    if total["low"].isna().all():
        words = [f"{what} had an effect that has no band: the plant was learned without standard errors."]
    for verdict, said in _SAID_OF[question].items():
        names = total.loc[total["verdict"] == verdict, "column"].tolist()
        if names:
            rest = f" and {len(names) - TUNING.impact_named} more" if len(names) > TUNING.impact_named else ""
            words.append(said.format(f"{', '.join(names[: TUNING.impact_named])}{rest}"))
    return " ".join(words)
