"""Riva's gRPC API, for clients of NVIDIA Riva and its Speech NIMs."""
