"""The key with which `speech` calls the components, and which nobody else has."""

ENVIRONMENT = "CONCH_COMPONENT_KEY"
"""Environment variable of `tritonserver`: its models inherit the key. Without it, components answer
everybody."""
PARAMETER = "component_key"
"""Request parameter of each call of a component."""
