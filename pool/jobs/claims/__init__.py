"""A claim as its schedd sees it, from the request for a slot to the last word of it: states, events, table of moves.

What always holds, whatever is lost, repeated or late:

* A claim has one job at a time, and none after its startd has begun to take it away or its schedd to give it back.
* Nothing is done for a claim that is over, and it is forgotten once.
* A claim that is given back is over when the startd says so, or has not been reached for a lease. The word that it is
  given back is a notice, and may be lost with its connection: then the startd is asked after the claim, and told again.
* The startd is told that a claim is `concluded` where all that was started under it has reported its end, also by a
  schedd that knows the claim from an earlier life alone.

docs/claims.md is drawn from the table. HTCondor's manual: admin-manual/ep-policy-configuration ("The Claimed State and
Leases").
"""
