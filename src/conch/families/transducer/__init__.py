"""Transducers as icefall and NeMo export them for sherpa-onnx."""
