"""Federated learning engines as carriers of packets. Each module needs its optional extra."""
