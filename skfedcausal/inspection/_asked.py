"""How a fitted estimator is asked: by what it hands out, or a word why it has no answer."""

from sklearn.utils.validation import check_is_fitted

from ..estimators._parts import Asked, AskedInputs, AskedPlant, AskedWatch

_KINDS = {
    Asked: "one of the estimators",
    AskedPlant: "a FederatedGrangerEstimator or a FederatedCounterfactualEstimator",
    AskedInputs: "a FederatedCounterfactualEstimator",
    AskedWatch: "a FederatedRCADetector",
}


def asked_of(est, kind, question):
    """What an estimator hands out of a `kind` that knows the answer to a `question`, fitted or not."""
    asked = getattr(est, "asked_", None)
    if not isinstance(asked, kind):
        raise TypeError(f"`{question}` is asked of {_KINDS[kind]}; got {type(est).__name__} as `est`.")
    return asked


def fitted(est, kind, question):
    """The same of an estimator that has to be fitted."""
    asked = asked_of(est, kind, question)
    check_is_fitted(est)
    return asked


def answering(est, question, attribute=None, example="LikelihoodServer"):
    """The server of a fitted estimator of a plant, which has to know the answer to a `question`."""
    fitted(est, AskedPlant, question)
    if not getattr(est.server_, attribute or question, False):
        raise ValueError(
            f"`{question}` is not answered by a fit with {type(est.server_).__name__}; fit with server={example}(...)."
        )
    return est.server_
