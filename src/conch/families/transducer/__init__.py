"""Transducers as icefall exports them for sherpa-onnx."""

FRAME_S = 0.04
"""Seconds of a frame of every encoder: it joins four of 10 ms."""
