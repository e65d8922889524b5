"""The core of a BLS service: requests, calls of components, and limits. It knows no speech."""
