"""What is asked of a server that learned links and needs its messages again: functions of the server."""

from functools import partial

from sklearn.base import clone

from ...statespace.matrices import few_threads
from ..dynamics import Plant
from ..estimation.estimate import LARGE, screen_plant
from ..fitting import correction_of, settings_of, with_knowledge
from ..joint import JointRecord
from .benefit import Benefit, split_messages
from .resampling import check_bootstrap, check_stability, stability_table
from .tables import links_table


def benefit(server, messages, *, held_out=0.3):
    """Gain of each unit from the plant, on held-out rows, a `Benefit`."""
    if server.partition_.n_inputs:
        raise ValueError("The benefit of joining is computed for plants without inputs.")
    head, tail = split_messages(messages, held_out)
    return Benefit(anew(server, head), lambda name: anew(server, {name: head[name]}), tail)


def anew(server, messages):
    """Another server like this one that learned from other messages, and measured no benefit."""
    other = clone(server)
    other.measures_benefit = False
    return other.fit(messages)


def classical_tests(server, messages, method):
    """The table of classical tests of the record that a server learned from."""
    server.engine_.check_tests(method)
    settings = settings_of(server, server.names_, messages)
    return server.engine_.tests(server, server.joint_record(messages), settings, method)


def changed_links(server, messages, alpha):
    """Which links and units of the plant have changed in a record; dates are its rows."""
    from ..changes.compared import changed_table  # for those who ask
    from ..changes.plant import LearnedPlant

    record, learned = server.joint_record(messages), server.unshrunk_plant_
    estimates = server.engine_.blocks if learned.n_lags == 1 else None
    pairs = server.engine_.pairs if server.n_absent_ else None
    settings = learned.scale, server.n_samples_, estimates, record.known_links, pairs
    plant = LearnedPlant(learned.A, server.partition_, *settings)

    def filter_of(A):
        return Plant(A, learned.B, learned.Q, learned.point).run(record)

    with few_threads(record.partition.n_states):
        return changed_table(server.names_, plant, record, filter_of, alpha)


def bootstrap_links(server, messages, *, n_resamples, method, confidence, **how):
    """Scatter of the estimates of links over resampled records, to check their standard errors."""
    check_bootstrap(n_resamples, method, confidence)
    settings, how = settings_of(server, server.names_, messages), how | {"method": method, "confidence": confidence}
    return server.engine_.bootstrap(server, server.joint_record(messages), settings, n_resamples=n_resamples, **how)


def stable_links(server, messages, *, n_resamples, threshold, block_length, **how):
    """Links that the search finds in most halves of a record: stability selection."""
    check_stability(n_resamples, threshold)
    record, how = server.joint_record(messages), how | {"threshold": threshold}
    return stability_table(record, server.engine_.halves(server, record, block_length), n_resamples=n_resamples, **how)


def links_over_time(server, messages, piece):
    """Links by the rows between which they stay the same."""
    from . import over_time  # for those who ask

    record, settings = server.joint_record(messages), settings_of(server, server.names_, messages)
    estimates = partial(server.engine_.pieces, server, record, settings)
    return over_time.links_over_time(record, estimates, piece, alpha=server.alpha, margin=server.margin)


def screen(server, messages):
    """Test every pair once at the uncoupled plant of one lag, the fast first step of `fit`.

    Score tests that take no other links into account, so an indirect influence may show. Geweke's
    measure, which needs the whole plant, is missing (NaN).

    Parameters
    ----------
    server : LikelihoodServer
        Its settings.
    messages : dict of str to StateMessage

    Returns
    -------
    DataFrame
        With the columns of `links_`.

    Examples
    --------
    >>> from skfedcausal import KalmanClient, LikelihoodServer
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.server.links.answers import screen
    >>> X, truth = make_granger_plant(3, links=[("unit0", "unit2")], random_state=0)
    >>> messages = {name: KalmanClient().fit(Y).message(Y) for name, Y in X.items()}
    >>> table = screen(LikelihoodServer(), messages)
    >>> table.loc[table["p_value"].idxmin(), ["cause", "effect"]].tolist()
    ['unit0', 'unit2']
    """
    server._validate_params()
    record = with_knowledge(server, JointRecord.from_messages(messages))
    if len(record.names) > LARGE:
        from ..sparse.server import asks_for_the_whole, screened_table  # for plants of many units

        if not asks_for_the_whole(record, server):
            with few_threads(record.partition.n_states):
                return screened_table(server, record)
    return screened(server, record)


def screened(server, record):
    """Table of the tests of a joint record at the uncoupled plant."""
    blocks = screen_plant(record)
    how = {"alpha": server.alpha, "margin": server.margin, "correction": correction_of(server, record.names)}
    table = links_table(record.names, record.partition, blocks, **how)
    known = record.known_links
    return table if known is None else known.told(table, record.names)
