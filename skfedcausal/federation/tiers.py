"""A server per site and one above: units are reached through the transport of their site, all sites at a time."""

from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

from ..message.packet import Failure, Packet
from .tuning import TUNING


class TieredTransport:
    """Transports of several sites as one, in which a late site holds up nobody.

    The server above sees the units of all sites under their names and gets the packets that they sent: what it learns
    is what it would learn from the units themselves, to the last bit.

    Parameters
    ----------
    sites : dict of str to Transport
        What reaches the units of every site; no two units of the same name.
    patience : float, default=None
        Seconds that a site's answers are waited for where nobody says how long; None waits for every site. What a
        site has not brought by then are failures of its units, of kind "timeout".

    Raises
    ------
    ValueError
        If two sites have units of the same name.

    See Also
    --------
    skfedcausal.federation.LostUnits : What a fit does without some answers.

    Notes
    -----
    Sites are told nine tenths of that time, so that one whose unit is late can bring the others' answers: the unit is
    lost and not its site. A site that comes late goes on in its own thread; what it brings then is not taken. Its next
    packets wait until it is done with the last ones, so that state at units follows the order of packets.

    Examples
    --------
    >>> from skfedcausal.federation import InProcessTransport, Packet
    >>> from skfedcausal.federation.tiers import TieredTransport
    >>> class Echo:
    ...     def handle(self, packet, state):
    ...         return Packet("echo", scalars={"heard": packet.op}), state
    >>> north, south = InProcessTransport({"boiler": Echo()}), InProcessTransport({"turbine": Echo()})
    >>> transport = TieredTransport({"north": north, "south": south}, patience=30)
    >>> transport.clients()
    ('boiler', 'turbine')
    >>> transport.exchange({"turbine": Packet("hello")})["turbine"].scalars["heard"]
    'hello'
    """

    def __init__(self, sites, patience=None):
        self._sites, self._patience = dict(sites), patience
        self._site_of: dict[str, str] = {}
        for site, transport in self._sites.items():
            for name in transport.clients():
                if name in self._site_of:
                    raise ValueError(
                        f"Sites {self._site_of[name]!r} and {site!r} both have a unit {name!r}. Give one of them "
                        "another name."
                    )
                self._site_of[name] = site
        # a thread for every site keeps its packets in order
        self._threads = {site: ThreadPoolExecutor(1, thread_name_prefix=f"site-{site}") for site in self._sites}

    @property
    def one_way(self):
        """Whether nothing can be sent to some site."""
        return any(getattr(transport, "one_way", False) for transport in self._sites.values())

    def clients(self):
        """Names of the units, site by site.

        Returns
        -------
        tuple of str
        """
        return tuple(self._site_of)

    def exchange(self, out, *, timeout=None):
        """Send one packet to each named unit through its site, all sites at a time, and collect the answers.

        Parameters
        ----------
        out : dict of str to Packet
        timeout : float, default=None
            Seconds; None takes `patience`.

        Returns
        -------
        dict of str to Packet or Failure
        """
        by_site: dict[str, dict[str, Packet]] = {}
        for name, packet in out.items():
            by_site.setdefault(self._site_of[name], {})[name] = packet
        patience = self._patience if timeout is None else timeout
        at_site = None if patience is None else TUNING.tiers_share * patience
        running = {
            site: self._threads[site].submit(self._sites[site].exchange, packets, timeout=at_site)
            for site, packets in by_site.items()
        }
        wait(running.values(), timeout=patience)
        answers: dict[str, Packet | Failure] = {}
        for site, packets in by_site.items():
            if running[site].done():
                answers |= running[site].result()
            else:
                running[site].cancel()
                answers |= dict.fromkeys(packets, Failure("timeout", f"its site {site!r} brought nothing in time"))
        return {name: answers[name] for name in out if name in answers}

    def forget(self, name, packet, problem):
        """Let the transport of a unit's site forget an answer that cannot be used.

        Parameters
        ----------
        name : str
        packet : Packet
            What was asked.
        problem : str
        """
        forget: Any = getattr(self._sites[self._site_of[name]], "forget", None)
        if forget is not None:
            forget(name, packet, problem)

    def close(self):
        """Close the transports of all sites; what a late site still does is not waited for."""
        for site, transport in self._sites.items():
            self._threads[site].shutdown(wait=False, cancel_futures=True)
            transport.close()
