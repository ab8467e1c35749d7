"""From a job's plan to its running program, or container.

A program is started in five steps:

1. `terms.py` decides what is unusual about it (cpus, a group id, namespaces); `context.py` is what all jobs share.
2. `bare.py` sets the limits of the control group, has the process made, and waits until the program has begun.
3. `spawn.py` makes it as posix_spawn does, with the account besides: `vfork.py` has the child's few instructions.
4. `fork.py` makes it where that way cannot, or has failed: it can tell which step fails, so that the job can be held.
5. `body.py` is what runs then: a `Body` that is signalled, suspended, looked at and ended; its `Scene` is for visitors.

A job in a container takes `container_plan.py`, `container_engine.py`, `container.py` and `container_usage.py` instead
of 2 to 4; for one in a Singularity image `image_test.py` comes first.
"""
