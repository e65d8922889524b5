"""The Wyoming protocol, which Home Assistant and its voice satellites speak.

Events over TCP: a line of JSON, then bytes (https://github.com/OHF-Voice/wyoming). The package
`wyoming` reads and writes them.
"""
