"""Deepgram's API: `/v1/listen` and `/v1/speak`, over HTTP and over WebSockets.

The contract is deepgram-sdk 7.17.0: `listen/v1`, `speak/v1` and their `types`.
"""
