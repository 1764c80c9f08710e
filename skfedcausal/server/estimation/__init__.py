"""The maximum-likelihood estimate of the coupled plant, step by step."""
