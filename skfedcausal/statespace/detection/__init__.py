"""Alarms and the evidence behind them, on plain arrays."""
