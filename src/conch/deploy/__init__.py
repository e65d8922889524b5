"""The files that `conch deploy` writes: configurations of other programs around Conch."""
