"""The course of a graph: what becomes of its nodes, event by event. A table and a state; nothing is done from here.

    course = Course(dag, settings)
    effects = step(course, Begin())
    effects = step(course, Submitted(node=0, cluster=12, jobs=1))

`step` takes what has happened and says what must be done now: submit a node, run a script, remove jobs, write a
rescue file, end. Its cost does not grow with the graph. HTCondor's manual: automated-workflows, and what
condor_dagman does.
"""
