"""Capacity planning: the arithmetic, its tables and the measurements behind them."""
