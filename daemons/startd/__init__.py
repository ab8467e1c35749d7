"""The startd: the slots of an execute host, their owner's policy, the claims on them, and the starters of jobs."""
