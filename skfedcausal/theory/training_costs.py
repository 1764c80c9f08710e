"""Cost of a round of gradient training: numbers that cross, multiplications (second paper, section 5.4)."""

import numpy as np


def numbers_sent(n_states, n_inputs, n_pairs, *, first, penalty):
    """Real numbers that cross in one batch round of Algorithm 1, by unit.

    Parameters
    ----------
    n_states, n_inputs : sequence of int
        P_m and U_m of every unit.
    n_pairs : int
        Pairs of successive time steps.
    first : bool
        The round in which filtered states and inputs are sent too. The later ones send ``h_a`` and phi
        (without which the penalty cannot be computed at the server; Algorithm 1 leaves it out).
    penalty : bool
        Whether the gradient in ``h_hat_a`` comes back too (equation 7; Algorithm 1, line 36, leaves it out).

    Returns
    -------
    dict of str to ndarray of int, shape (n_units,)
        ``up`` and ``down``. Their sum over the units is of order ``T (P + U)`` with ``P = sum P_m``, ``U =
        sum U_m``: the factor M in the paper's ``O(M (P + U))`` is one too many, and its T is left out.
    """
    p, k = np.asarray(n_states), np.asarray(n_inputs)
    up = n_pairs * (3 * p + k) + p if first else n_pairs * p + p
    return {"up": up, "down": n_pairs * p * (2 if penalty else 1)}


def multiplications(n_states, n_inputs, n_sensors, n_pairs, *, penalty):
    """Multiplications of one batch round with series, done block by block as the equations stand.

    Parameters
    ----------
    n_states, n_inputs, n_sensors : sequence of int
        P_m, U_m and D_m of every unit.
    n_pairs : int
    penalty : bool

    Returns
    -------
    dict of str to int
        ``server``: equation 11 and the derivatives in ``A_mn, B_mn`` and in the states, of order ``T P (P +
        U)``: the paper's ``M^2 P^2 + M^2 U^2`` leaves out T and the products of states with inputs.
        ``clients``: equations 4 to 8, of order ``T P_m (P_m + D_m + U_m)`` each: the paper's ``T P_m^2``
        leaves out the products with the measurements. Products with step sizes are not counted.
    """
    p, k, d = (np.asarray(x) for x in (n_states, n_inputs, n_sensors))
    others, other_inputs = p.sum() - p, k.sum() - k
    server = p * (p + k) + 2 * p * (others + other_inputs)  # own part; foreign parts and derivatives in them
    clients = 2 * p * d + p * (p + k)  # theta y and C h_a; A h_hat_a + B u
    clients = clients + p * d + 2 * p * p + 2 * p * d  # C' r_a; A' of both pulls; products with y'
    if penalty:
        server = server + 2 * p * p + p * others  # A (h_hat_a - h_c), A' D; D h_n'
    return {"server": int(n_pairs * server.sum()), "clients": int(n_pairs * clients.sum())}
