"""hibari: an English voice of 14 MB, with a front end of its own. Apache-2.0."""
