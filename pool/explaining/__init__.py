"""Why a job gets no slot: condition by condition, and by the negotiation itself.

`analysis.py` is what came of it, which tools read; they start without the rest, so nothing of it is imported here.
"""
