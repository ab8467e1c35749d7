"""Programs that describe a machine: which there are (`jobs`), when they run (`schedule`), what they say (`output`).

The startd and the schedd each have such programs ("cron jobs"), and benchmarks are a third set of them. What they print
is attributes; those are merged into the ads of slots (`merge`), or into the schedd's own.
"""
