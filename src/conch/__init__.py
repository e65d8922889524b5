"""Speech recognition on NVIDIA Triton through one BLS model."""

__version__ = "0.1.0"
