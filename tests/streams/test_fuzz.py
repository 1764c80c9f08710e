"""Whatever bytes come, a source gives rows or a warning that names what was wrong, and good rows among them."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest

from skfedcausal.streams import Clock, StreamWarning, follow_csv
from skfedcausal.streams.mqtt import Rows

HEAD = "time,mill__x,kiln__y\n"
PIECES = [
    *(b'"', b",", b";", b"\n", b"\r\n", b"\0", b"\xff\xfe", "\u2028".encode(), b"9" * 5000, b"1e999", b"-", b"NaN"),
    *(
        b"2026-01-01 00:00",
        b"2026-03-29T02:30+01:00",
        b"9999-12-31",
        b"0000-00-00",
        b"1e18",
        b"time,mill__x",
        b"[[",
        b"{",
    ),
]


def noise(rng, n):
    parts = [
        bytes(rng.integers(0, 256, rng.integers(1, 30)).astype(np.uint8)),
        *(PIECES[k] for k in rng.integers(0, len(PIECES), n)),
    ]
    return b"".join(parts[k] for k in rng.permutation(len(parts)))


@pytest.mark.parametrize("seed", range(30))
def test_a_file_of_noise(tmp_path, seed):
    rng, path = np.random.default_rng(seed), tmp_path / "live.csv"
    good = [f"2026-01-01 {k // 60:02d}:{k % 60:02d},{k},{k}\n".encode() for k in range(60)]
    text = HEAD.encode() + b"".join(good[:30]) + noise(rng, 40) + b"\n" + b"".join(good[30:])
    path.write_bytes(text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", StreamWarning)
        rows = pd.concat(list(follow_csv(path, wait=0.0, batch_size=int(rng.integers(1, 20)))))
    assert rows.index.is_monotonic_increasing
    assert set(range(60)) <= set(rows["mill__x"].dropna())


def anything(rng, depth=0):
    leaves = [
        None,
        True,
        1,
        -1.5,
        1e308,
        float("nan"),
        float("inf"),
        10**400,
        "",
        "on",
        "2026-01-01T00:00:00Z",
        "x" * 3000,
    ]
    kind = rng.integers(0, 4) if depth < 4 else 3
    if kind == 0:
        return [anything(rng, depth + 1) for _ in range(rng.integers(0, 4))]
    if kind == 1:
        names = ["time", "timestamp", "metrics", "name", "value", "mill__x", "a", ""]
        return {names[k]: anything(rng, depth + 1) for k in rng.integers(0, len(names), rng.integers(0, 5))}
    return leaves[rng.integers(0, len(leaves))]


@pytest.mark.parametrize("seed", range(10))
def test_messages_of_anything(seed):
    rng, rows, clock, given = np.random.default_rng(seed), Rows(None, 0.0), Clock(), []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", StreamWarning)
        for k in range(300):
            good = json.dumps({"time": f"2026-01-01T{k // 60:02d}:{k % 60:02d}:00", "mill__x": k})
            for payload in (json.dumps(anything(rng)), noise(rng, 5), good):
                rows.add("plant/" + "+" * rng.integers(0, 3), payload)
                if (frame := rows.ready()) is not None and (frame := clock.take(frame)) is not None:
                    given.append(frame)
    found = pd.concat(given)
    assert found.index.is_monotonic_increasing
    assert len(set(range(300)) - set(found["mill__x"].dropna())) <= 5
