"""Conversations made of utterances with known speakers, and how well a server tells them apart."""
