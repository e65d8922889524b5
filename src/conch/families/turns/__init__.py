"""Whether a speaker has finished: smart-turn on ONNX Runtime."""
