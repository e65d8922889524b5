"""Hotwords in the text of any CTC search: word spotting, and what it may replace.

    log_probs ─ spotting ─ spots ─┐
        └────── search ─ reading ─┴─ placing ─ words

The search knows nothing of hotwords. So they are the same for a beam, for a graph and for the best
path, and a list of a thousand costs the search nothing.
"""
