"""One execution of a job, from the slot that is asked to run it to what came of it: states, events, table of moves.

What always holds, whatever is lost, repeated or late:

* An execution is concluded once, and nothing is done for it afterwards.
* The startd is asked once to start the job.
* What the starter has reported counts, whatever anybody else says of the job later.
* Where the startd says that nothing runs, the starter's own report may have been sent before that: the startd's word
  counts when the starter's connection has been read to its end. It has an end: peers ask each other for signs of life.
* A job that was removed is given up when its slot does not end it in time. One that may run again is not: that waits
  until the startd, or the end of the claim, tells that it runs no more.

docs/executions.md is drawn from the table. HTCondor's condor_shadow has the same part:
admin-manual/introduction-admin-manual.
"""
