"""The only package that imports `triton_python_backend_utils`.

The python backend provides that module inside the server; it is never installed. `models` makes the
class of each model.py. `entry_point` answers the requests of a BLS model; no component imports it,
and so it takes none of their memory.
"""
