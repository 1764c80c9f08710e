"""Plants of several lags: their likelihood from lag covariances, priors of their coefficients, tests."""
