"""What `conch bulk` costs next to `conch transcribe`."""
