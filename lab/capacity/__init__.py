"""How many servers a load takes: the arithmetic, its tables and the measurements behind them."""
