"""condor_dagman: a graph of jobs run as a client of the schedd. `pool/dag/course` decides, this package acts.

It runs as a job of the scheduler universe, as that job's owner, and does what any user could do by hand: it submits
jobs, watches them, removes them, and runs the scripts of nodes. `manager` has the loop.
"""
