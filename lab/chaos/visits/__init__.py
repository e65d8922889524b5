"""Visits to the doors of a gateway: honest ones, and those of strangers of every kind.

What a visit sends follows from the declaration of its door. So a door that is added is visited too.
"""
