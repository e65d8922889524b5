"""Wait, before a pod stops, until its live streams have ended.

Kubernetes takes the pod from its Services at the same time, so no new streams come. What is still
open after --at-most gets its last text from the gateway, and an end.
"""

import argparse
import re
import time
import urllib.request


def open_streams(metrics: str) -> float:
    """Return the live streams in metrics of Prometheus' text format."""
    found = re.findall(r"^conch_open_streams\{[^}]*\} (\S+)$", metrics, re.MULTILINE)
    return sum(map(float, found))


def main() -> None:
    """Wait until no stream is open, or nobody can say."""
    parser = argparse.ArgumentParser(description=__doc__)
    # Services forget the pod a little later.
    parser.add_argument("--at-least", type=float, default=5, metavar="SECONDS")
    parser.add_argument("--at-most", type=float, default=305, metavar="SECONDS")
    parser.add_argument("--metrics", default="http://127.0.0.1:8002/metrics", metavar="URL")
    args = parser.parse_args()
    end = time.monotonic() + args.at_most
    time.sleep(min(args.at_least, args.at_most))
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(args.metrics, timeout=5) as answer:
                if open_streams(answer.read().decode()) == 0:
                    return
        except OSError:
            return
        time.sleep(min(1.0, max(0.0, end - time.monotonic())))


if __name__ == "__main__":
    main()
