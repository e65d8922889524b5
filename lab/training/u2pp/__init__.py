"""Training of a U2++ in the formats of WeNet."""
