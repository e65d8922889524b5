"""What Triton 2.51, gRPC and tritonclient say where no code or state separates two cases.

Everything that hangs on their wording is here. tests/integration/test_foreign.py makes a real
server say it, and fails when the wording changes.
"""

import re

PROCESS_DIED = re.compile(r"[Ss]tub process '[^']*' is not healthy")
"""Triton, of a call of a model whose process has died. All errors of models have one status."""

NO_START = "must specify the START flag"
"""Triton's sequence batcher, of a call of a sequence that it does not know."""

NO_CANDIDATE = "timeout of the corresponding sequence has been expired"
"""Triton's sequence batcher, of a START that found no place in time."""

NOT_READY = "Model '{model}' is not ready"
"""Triton to a BLS call of a model that is not loaded."""

STOPPING = ("Server not ready", "Server is stopping")
"""Triton after SIGTERM: to a BLS call, at the end of the message, and to a client."""

UNKNOWN_MODEL = "unknown model"
"""Triton to a client, of a model that it does not have."""

UNLOADED_MODEL = "has no available versions"
"""Triton to a client, of a model that is being replaced, or taken out of a stopping server."""

NO_SHARED_MEMORY = re.compile(r"shared memory pool|unable to .{0,40}shared memory", re.IGNORECASE)
"""The python backend when /dev/shm is full."""

GRPC_LOST = (
    *("failed to connect", "errors resolving", "DNS resolution failed"),
    *("Socket closed", "Connection reset", "Broken pipe", "recvmsg", "sendmsg"),
    *("GOAWAY", "Stream removed", "Endpoint clos", "keepalive", "ping timeout"),
)
"""gRPC itself, with the status UNAVAILABLE. A Triton that refuses a request has the same status."""

GRPC_BROKEN_OFF = "RST_STREAM"
"""gRPC, of an answer that ends in the middle."""

CONNECTION_BROKEN = re.compile(
    r"^(?!failed to connect).*(?:clos|removed|reset by|disconnect|broken|Broken)", re.DOTALL
)
"""Any transport, of a connection that was made and then lost."""

UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"
"""OpenSSL, of a certificate whose authority is not trusted."""

GRPC_OF_PROXY = "http2 header with status"
"""gRPC, of an answer that is not Triton's, but a proxy's."""
