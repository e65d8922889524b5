"""What `conch bulk` costs beside `conch transcribe`."""
