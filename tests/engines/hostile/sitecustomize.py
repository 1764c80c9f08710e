"""Loaded by Python itself at a hostile site: its gate sends garbage, an old answer again, nothing at all."""

import os
import sys
import time
from importlib.machinery import PathFinder

_DIGITS = os.environ.get("HOSTILE_AT", "").split(",")  # numbers of the questions it is hostile at


class _Patch(PathFinder):
    """Changes the module of the gate when it is imported."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name != "skfedcausal.federation.gate":
            return None
        spec = PathFinder.find_spec(name, path, target)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            _make_hostile(module)

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


if _DIGITS != [""]:
    sys.meta_path.insert(0, _Patch)
