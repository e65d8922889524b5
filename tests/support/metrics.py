"""Read a server's metrics port."""

import re
import urllib.request
from collections import defaultdict


def metrics_of(url: str) -> dict[str, float]:
    """Return every `conch_` metric, summed over the models: `name` and `name{label=value,…}`.

    A metric with labels is there twice: as a whole, and by its labels other than `model`.
    """
    with urllib.request.urlopen(url, timeout=10) as response:
        lines = response.read().decode().splitlines()
    found: defaultdict[str, float] = defaultdict(float)
    for line in lines:
        if match := re.fullmatch(r"(conch_\w+)\{(.*)\} (\S+)", line):
            labels = dict(re.findall(r'(\w+)="([^"]*)"', match[2]))
            labels.pop("model")
            found[match[1]] += float(match[3])
            if labels:
                named = ",".join(f"{name}={labels[name]}" for name in sorted(labels))
                found[f"{match[1]}{{{named}}}"] += float(match[3])
    return found
