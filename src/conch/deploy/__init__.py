"""What `conch deploy` writes: the configurations of other programs around Conch."""
