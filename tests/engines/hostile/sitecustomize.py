"""Loaded by Python itself at sites under test.

A hostile one sends garbage, an old answer again, nothing at all. At all of them a record is overwritten with
NaN as soon as its noised copy exists.
"""

import os
import sys
import time
from importlib.machinery import PathFinder

_DIGITS = os.environ.get("HOSTILE_AT", "").split(",")  # numbers of the questions it is hostile at


class _Patch(PathFinder):
    """Changes modules when they are imported."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name not in _CHANGES:
            return None
        spec = PathFinder.find_spec(name, path, target)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            _CHANGES[name](module)

        spec.loader.exec_module = exec_module
        return spec


def _make_hostile(module):
    answer, kept = module.Gate.answer, []

    def hostile(gate, frame):
        garbage, replay, silence = map(int, _DIGITS)
        envelope, _ = module.read_envelope(frame)
        if envelope.run != "hostile":
            return answer(gate, frame)
        number = envelope.sequence
        if number == silence:
            time.sleep(6.0)
            return None
        good = answer(gate, frame)
        kept.append(good)
        if number == garbage:
            return os.urandom(1000)
        return kept[1] if number == replay else good

    module.Gate.answer = hostile


def _make_poisonous(module):
    release = module.SitePrivacy.release

    def poisonous(privacy, name, record, *more):
        import numpy as np

        released = release(privacy, name, record, *more)
        np.load(record.outputs.filename, mmap_mode="r+")[:] = np.nan
        return released

    module.SitePrivacy.release = poisonous


_CHANGES = {"skfedcausal.client.site_record": _make_poisonous}
if _DIGITS != [""]:
    _CHANGES["skfedcausal.federation.gate"] = _make_hostile
sys.meta_path.insert(0, _Patch)
