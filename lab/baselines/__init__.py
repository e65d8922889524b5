"""What Conch is measured against that is not Triton."""
