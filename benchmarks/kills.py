"""The command killed at random moments, beside one that was not: ``python -m benchmarks.kills --kills 20``."""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from .chaos import plant_and_rows


def killed(folder, still, live, kills=20, seed=0):
    """Events that a watch told whose process was killed while rows came, and those of one that went on.

    `folder` has the nominal record; `live` are the rows, written a few at a time.
    """
    rng, text = np.random.default_rng(seed), live.to_csv(index_label="time").splitlines(keepends=True)
    (still / "nominal.csv").write_bytes((folder / "nominal.csv").read_bytes())
    (still / "live.csv").write_text("".join(text))
    process = _begun(still, wait=1.0)
    process.wait()
    (folder / "live.csv").write_text(text[0])
    done, parts = 1, np.array_split(np.arange(1, len(text)), kills + 1)
    for k, part in enumerate(parts):
        process = _begun(folder, wait=None if k < kills else 3.0)
        _started(folder, process)
        for row in part.tolist():
            with (folder / "live.csv").open("a") as file:
                file.write(text[row])
            done += 1
            time.sleep(0.002)
        if k < kills:
            time.sleep(float(rng.uniform(0, 0.5)))
            process.kill()
        process.wait()
    told = _told(folder)
    return {
        "kills": kills,
        "told": _last(told),
        "undisturbed": _last(_told(still)),
        "twice": len(told) - len({event["id"] for event in told}),
    }


def _last(events):
    """What was told last of each incident: places and root. How often it is revised depends on the batches."""
    return {event["incident"]: [event[name] for name in ("start", "detected", "end", "root")] for event in events}


def _begun(folder, wait):
    more = "" if wait is None else f"wait = {wait}\n"
    (folder / "watch.toml").write_text(
        f'[watch]\nnominal = "nominal.csv"\nsource = "csv:live.csv"\nlog = "told.jsonl"\nrefresh = 1000.0\n{more}'
    )
    (folder / "watch.html").unlink(missing_ok=True)
    command = [sys.executable, "-m", "skfedcausal", "watch", str(folder / "watch.toml")]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _started(folder, process):
    """Wait until the watch has written its first page."""
    while process.poll() is None and not (folder / "watch.html").exists():
        time.sleep(0.02)


def _told(folder):
    path = Path(folder) / "told.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


if __name__ == "__main__":
    reader = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    reader.add_argument("--kills", type=int, default=20)
    reader.add_argument("--seed", type=int, default=1)
    given = reader.parse_args()
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        nominal, rows, _ = plant_and_rows(3000, 6, given.seed)
        pd.DataFrame(nominal).to_csv(Path(one) / "nominal.csv", index_label="time")
        found = killed(Path(one), Path(other), rows, given.kills, given.seed)
    print(json.dumps({**found, "same": found["told"] == found["undisturbed"]}))
