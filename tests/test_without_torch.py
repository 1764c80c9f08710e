"""Without torch everything but training a network works, and the message names the extra."""

import subprocess
import sys

import pytest

SCRIPT = """
import sys
from importlib.abc import MetaPathFinder

class Refuse(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "torch":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Refuse())
import skfedcausal
from skfedcausal.datasets import make_nonlinear_plant

make_nonlinear_plant(n_samples=50, random_state=0)
for network in (skfedcausal.LSTMRegressor(), skfedcausal.SELURegressor(), skfedcausal.papers.AttentionRegressor()):
    for method in (network.fit, network.partial_fit):
        try:
            method([[0.0], [1.0]], [0.0, 1.0])
        except ImportError as error:
            assert "pip install 'skfedcausal[torch]'" in str(error), error
        else:
            raise AssertionError
"""


@pytest.mark.medium
def test_the_message_says_which_extra_to_install():
    subprocess.run([sys.executable, "-c", SCRIPT], check=True)
