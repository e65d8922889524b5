"""Join the streams of one live session: what the next stream needs to continue.

Nothing here sends or waits. The client uses it after it has lost a server, and the gateway when a
session continues in another one.
"""
