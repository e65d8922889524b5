"""`python -m lab perf-analyzer-input`: input files for the perf_analyzer of NVIDIA."""
