"""Parts of an estimator that answer before anybody gave them: parameters by name, and a picture that shows them."""

from inspect import isfunction
from types import SimpleNamespace
from typing import Any

from ..arguments import checked
from ..bases import BaseEstimator
from ..client.augmenter import LinearAugmenter
from ..client.kalman import KalmanClient
from ..containers.layout import listed
from ..server.likelihood import LikelihoodServer


class DefaultParts(BaseEstimator):
    """Lets an estimator whose parts are None list and set the parameters of what None stands for.

    The part itself is put in by the first ``set_params(part__name=...)``, so that an estimator of which nothing was set
    stays the one that it was.
    """

    _default_server: Any = LikelihoodServer
    _server_settings: dict = {}  # of the default server

    def __init_subclass__(cls, **settings):
        super().__init_subclass__(**settings)
        for name, question in list(vars(cls).items()):
            if isfunction(question) and not name.startswith("_"):
                setattr(cls, name, checked(question))

    @classmethod
    def _default_parts(cls):
        """What None stands for, by the name of the parameter."""
        server = cls._default_server(**cls._server_settings)
        return {"client": KalmanClient(), "augmenter": LinearAugmenter(), "server": server}

    def _parts(self):
        """The parts as they are, or those that None stands for."""
        own = {name: getattr(self, name) for name in ("client", "augmenter", "server", "privacy")}
        return own | {name: part for name, part in self._default_parts().items() if own[name] is None}

    def get_params(self, deep=True):
        """Parameters by name, and with `deep` those of the parts, ``part__name``.

        Parameters
        ----------
        deep : bool, default=True
            Also of parts that None stands for: client, augmenter and server.

        Returns
        -------
        dict
        """
        params = super().get_params(deep=deep)
        if deep:
            for name, part in self._default_parts().items():
                if params[name] is None:
                    params |= {f"{name}__{key}": value for key, value in part.get_params().items()}
        return params

    def set_params(self, **params):
        """Set parameters by name, those of a part by ``part__name``.

        Parameters
        ----------
        **params : dict
            A part that is None is put in first, as what None stands for.

        Returns
        -------
        self : estimator

        Raises
        ------
        ValueError
            If there is no such parameter, or it is one of `privacy`, which is off.

        Examples
        --------
        >>> from skfedcausal import FederatedGrangerEstimator
        >>> FederatedGrangerEstimator().set_params(client__n_states=2).client
        KalmanClient(n_states=2)
        """
        nested: dict[str, dict] = {}
        for name in [name for name in params if "__" in name]:
            owner, _, own = name.partition("__")
            nested.setdefault(owner, {})[own] = params.pop(name)
        super().set_params(**params)
        defaults = self._default_parts()
        for owner, settings in nested.items():
            if getattr(self, owner, "") is not None:
                super().set_params(**{f"{owner}__{name}": value for name, value in settings.items()})
            elif owner in defaults:
                super().set_params(**{owner: defaults[owner].set_params(**settings)})
            else:
                example = "GaussianMechanism(...)" if owner == "privacy" else "..."
                raise ValueError(
                    f"{type(self).__name__} has no `{owner}` to set {listed(settings)} of: it is off by default, "
                    f"switch it on with {owner}={example}."
                )
        return self

    def _sk_visual_block_(self):
        """The parts side by side, where scikit-learn draws the estimator."""
        parts = {name: part for name, part in self._parts().items() if hasattr(part, "get_params")}
        return SimpleNamespace(
            kind="parallel",
            estimators=list(parts.values()),
            names=[f"{name}: {type(part).__name__}" for name, part in parts.items()],
            name_details=[str(part) for part in parts.values()],
            dash_wrapped=True,
        )
