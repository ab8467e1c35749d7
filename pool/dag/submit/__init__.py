"""How a graph becomes a job of the scheduler universe: what condor_submit_dag reads, decides and writes."""
