"""Decode log probabilities of CTC units into texts: the two components and their searches."""
