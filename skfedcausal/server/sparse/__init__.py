"""Plants of many units: estimated block by block along their links, at a cost that grows with the links."""
