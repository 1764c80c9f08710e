"""Threads of the linear algebra."""

from threadpoolctl import threadpool_info

from skfedcausal.statespace.blas import few_threads


def threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_few_columns_are_worked_on_by_one_thread_and_the_others_come_back():
    before = threads()
    with few_threads(30):
        assert set(threads()) == {1}
    assert threads() == before


def test_many_columns_keep_the_threads():
    before = threads()
    with few_threads(1000):
        assert threads() == before
