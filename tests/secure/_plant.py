"""Units that take part in secure sums, the dealer's keys, and their packets one by one."""

from functools import cache

from skfedcausal import KalmanClient
from skfedcausal.client.worker import UnitWorker
from skfedcausal.datasets import make_granger_plant
from skfedcausal.message.secure import MaskedSeries, SecureSumsRequest
from skfedcausal.secure import Dealer, SumsWorker
from skfedcausal.secure.server.sums import corrections_request, others_of
from skfedcausal.statespace.lag_products import Sums

LAGS = 3
SUMS = Sums(LAGS, (400,))


@cache
def records(n_units=3, n_samples=400):
    return make_granger_plant(n_units, n_samples=n_samples, links=[(0, 1)], n_states=2, random_state=0)[0]


def units(X, **settings):
    """Workers of the units by name, and their dealer."""
    dealer = Dealer({name: name.encode().ljust(32) for name in X})
    workers = {}
    for name, Y in X.items():
        worker = UnitWorker(name, Y, None, (0,), None, KalmanClient(n_states=2))
        workers[name] = SumsWorker(worker, dealer.keys[name], **settings)
    return workers, dealer


def first_round(workers, lags=LAGS):
    """Masked series of all units, and the units' states."""
    answers = {name: worker.handle(SecureSumsRequest(lags).to_packet(1), {}) for name, worker in workers.items()}
    messages = {name: MaskedSeries.from_packet(packet) for name, (packet, _) in answers.items()}
    return messages, {name: state for name, (_, state) in answers.items()}


def asked_of_the_dealer(messages, among=None):
    """Request to the dealer about the units `among` those that were asked to multiply."""
    digests = {name: request.digest for name, request in others_of(messages, SUMS).items()}
    left = messages if among is None else {name: messages[name] for name in among}
    return corrections_request(left, SUMS, digests)
