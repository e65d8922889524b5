"""Types that client and server share: options, results, errors, formats. Needs only numpy."""
