"""Units in the server's process are handled one after the other, or in two batches a job."""

import numpy as np
import pytest

from skfedcausal.federation import exchange as module
from skfedcausal.federation.exchange import InProcessTransport, Site
from skfedcausal.message.packet import Packet


class Namer:
    """Answers with a name, and remembers how often."""

    def __init__(self, name, **more):
        self.name = name
        vars(self).update(more)

    def handle(self, packet, state):
        n = state.get("n", 0) + 1
        return Packet(self.name, scalars={"n": n}), {"n": n}


def ask(workers, **how):
    return InProcessTransport(workers, **how).exchange(dict.fromkeys(workers, Packet("who")))


@pytest.mark.parametrize(("n_jobs", "n_units", "share"), [(2, 1, 1), (2, 4, 1), (2, 5, 2), (2, 9, 3), (3, 13, 3)])
def test_every_job_gets_its_units_in_two_batches(monkeypatch, n_jobs, n_units, share):
    asked = {}

    def parallel(jobs, **how):
        asked.update(how, jobs=jobs)
        return lambda calls: [function(*args) for function, args, _ in calls]

    monkeypatch.setattr(module, "Parallel", parallel)
    monkeypatch.setattr(module, "_WORTH", 0.0)
    workers = {f"unit{k}": Namer(f"unit{k}") for k in range(n_units + 1)}  # the first says how long the others take
    assert [answer.op for answer in ask(workers, n_jobs=n_jobs).values()] == list(workers)
    assert asked == {"jobs": n_jobs, "prefer": "threads", "batch_size": share, "pre_dispatch": "all"}
    ask(workers, n_jobs=n_jobs, backend="loky")
    assert asked["backend"] == "loky"


def test_little_work_is_not_handed_over(monkeypatch):
    monkeypatch.setattr(module, "Parallel", None)
    workers = {f"unit{k}": Namer(f"unit{k}") for k in range(5)}
    assert [answer.op for answer in ask(workers, n_jobs=2).values()] == list(workers)


@pytest.mark.parametrize(("n_jobs", "n_units"), [(None, 3), (1, 3), (2, 0)])
def test_one_job_and_no_unit_need_no_pool(monkeypatch, n_jobs, n_units):
    monkeypatch.setattr(module, "Parallel", None)
    assert len(ask({f"unit{k}": Namer("x") for k in range(n_units)}, n_jobs=n_jobs)) == n_units


@pytest.mark.parametrize(("columns", "widest"), [((3, 8), 8), ((3, None), np.inf), ((), 0)])
def test_the_widest_record_says_whether_linear_algebra_keeps_to_one_thread(monkeypatch, columns, widest):
    few_threads, seen = module.few_threads, []
    monkeypatch.setattr(module, "few_threads", lambda n: seen.append(n) or few_threads(n))
    more = [{} if n is None else {"n_columns": n} for n in columns]
    ask({f"unit{k}": Namer("x", **one) for k, one in enumerate(more)})
    assert seen == [widest]


def test_a_site_starts_with_the_state_it_is_given():
    site = Site(Namer("x"), {"n": 5})
    assert site.handle(Packet("who"), {})[0].scalars == {"n": 6}
    assert site.state == {"n": 6}
    assert site.handle(Packet("who"), {"n": 1})[0].scalars == {"n": 2}
    assert Site(Namer("x")).state == {}
    transport = InProcessTransport({"x": Site(Namer("x"), {"n": 5})})
    transport.exchange({"x": Packet("who")})
    assert transport.state("x") == {"n": 6}
