"""A Ray cluster of some nodes on this machine, until stdin closes. Runs in `conch bulk`'s Python.

Usage: python cluster.py NODES. The first line on stdout is its address.
"""

import sys

# Ray takes 127.0.0.1 for this machine's address in the network.
HOST = "127.0.0.2"
STORE_BYTES = 200 << 20


def main() -> None:
    """Start the nodes, print the address and wait."""
    from ray.cluster_utils import Cluster

    settings = {"node_ip_address": HOST, "object_store_memory": STORE_BYTES}
    head = {"num_cpus": 0, "include_dashboard": False, **settings}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    for _ in range(int(sys.argv[1])):
        cluster.add_node(num_cpus=2, **settings)
    print(f"\nready {cluster.address}", flush=True)
    sys.stdin.read()
    cluster.shutdown()


if __name__ == "__main__":
    main()
