"""Deepgram's API: `/v1/listen` and `/v1/speak`, over HTTP and over WebSockets, and `/v2/listen`.

The contract is deepgram-sdk 7.17.0: `listen/v1`, `listen/v2`, `speak/v1` and their `types`.
"""
