"""Benchmarks of a running Conch: speed, accuracy and memory, to size a machine by."""
