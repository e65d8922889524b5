"""U2 and U2++ models of WeNet, as its scripts export them."""
