"""From log probabilities of CTC units to texts: the two components and their searches."""
