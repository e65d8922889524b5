"""Ends of turns: how soon they are found, and how often a speaker is cut off in mid-sentence."""
