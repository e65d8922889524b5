"""Training of a streaming transducer in the format of sherpa-onnx."""
