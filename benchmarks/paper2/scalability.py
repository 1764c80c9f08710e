"""Tables 1 and 2: server loss and disentanglement with more sensors and with more clients."""

from ._setting import (
    SETTING,
    by_default,
    clients,
    construction_gap,
    errors,
    final,
    lagrangian,
    trained,
)

TITLE = "Tables 1 and 2: scalability"
TEXT = SETTING + (
    " L_s is equation 13, the residual between the server's and the augmented predictions and xi D; the "
    "residual alone stands beside it. All are sums over clients of means over time, in the scale of the "
    "states, which the paper's plants do not tell. With multipliers the weight of D is not a number, and "
    "only residual and D are shown. Plants {plants}."
)
PAPER_SENSORS = {16: (0.7649, 0.0034), 32: (1.0987, 0.0041), 64: (1.4243, 0.0046), 128: (1.1805, 0.0047)}
PAPER_CLIENTS = {2: (0.0744, 0.0013), 4: (0.0412, 0.0010), 8: (0.1714, 0.0036), 16: (0.3825, 0.0069)}
SENSORS, CLIENTS = "More sensors, M = 2 (Table 1)", "More clients (Table 2)"
RATIOS = "The paper's ratios"
NOTES = {
    CLIENTS: "D is as small as one wishes, with a large xi or with multipliers. It gets there because the "
    "blocks go: where measurements and other clients' states are not collinear, A_mm theta y = sum A_mn "
    "h_n at every step leaves A_mn = 0 and A_mm theta = 0. D says nothing of the error of B_mn. In the "
    "default mode theta is the regression of what the server found on the client's own data, so the means "
    "of Theorem 6.1 and Corollary 6.2 agree by construction, up to the first and last rows of the record.",
    RATIOS: "L_s holds xi D, and the residual is about as large as D, so the ratio is near xi + 1: no single xi gives "
    "those of both of the paper's tables.",
}


def rows_of(s, size, paper, n_units, n_sensors):
    """One plant in all modes, the paper's numbers above them."""
    rows = [{"": size, "mode": "paper", "L_s": paper[0], "D": paper[1], "L_s / D": paper[0] / paper[1]}]
    modes = {f"xi = {xi:g}, limit": {"solve": "stationary", "xi": xi} for xi in s["xi"]}
    modes[f"augmented Lagrangian, {s['max_iter']} rounds"] = lagrangian(s)
    for seed in s["plants"]:
        X, inputs, truth = clients(s, n_units, n_sensors=n_sensors, seed=seed)
        for name, settings in modes.items():
            est = trained(s, X, inputs, truth, **settings)
            row = {"": size, "mode": f"plant {seed}: {name}"}
            if "constraint" not in settings:
                row |= {"L_s": final(est, "L_s")}
            row |= {"residual": final(est, "server"), "D": final(est, "penalty")}
            if "constraint" not in settings:
                row |= {"L_s / D": row["L_s"] / row["D"]}
            A, B = errors(est, truth)
            rows.append({**row, "error of A_mn": A, "error of B_mn": B})
        default = by_default(X, inputs, truth)
        A, B = errors(default, truth)
        states, constant = construction_gap(default, X, inputs)
        row = {"": size, "mode": f"plant {seed}: default", "error of A_mn": A, "error of B_mn": B}
        rows.append({**row, "distance of means, Thm 6.1": states, "delta_d": constant})
    return rows


def figures(s):
    """Sections of the page."""
    sensors = [row for d in s["sensors"] for row in rows_of(s, f"D = {d}", PAPER_SENSORS[d], 2, d)]
    more = [row for m in s["clients"] for row in rows_of(s, f"M = {m}", PAPER_CLIENTS[m], m, s["n_sensors"])]
    told = {f"Table 1, D = {k}": v for k, v in PAPER_SENSORS.items()}
    told |= {f"Table 2, M = {k}": v for k, v in PAPER_CLIENTS.items()}
    return {SENSORS: sensors, CLIENTS: more, RATIOS: [{"": name, "L_s / D": L / D} for name, (L, D) in told.items()]}
