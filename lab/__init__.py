"""What the project measures and trains with; not part of the installed package."""
