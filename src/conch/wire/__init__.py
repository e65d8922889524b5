"""What client and server speak: options, results, errors and their formats; needs numpy alone."""
