"""A campaign of hostile requests, overload and faults against a server of its own."""
