"""Plants of several lags: learned when one lag is not enough, tested, dated, and run over records."""
