"""What families that speak share: the tensors of their components, and graphs cut from networks."""
