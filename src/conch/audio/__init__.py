"""Read audio of any format block by block as 16 kHz mono, without a second copy in memory."""
