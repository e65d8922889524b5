"""One live session over several streams of servers: what another stream needs to go on.

Nothing here sends or waits. The client uses it after it has lost a server, and the gateway for
sessions that go on in another session.
"""
