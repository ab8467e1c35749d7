"""The command line: every `condor_*` tool and the `pool` program, which runs them all by their verbs.

A tool is one module with a `TOOL` (its name, what it is for, its option table) and a `main(verb, argv)`. Start-up time
is what a user waits for, so a module imports only what its usual use needs; never trio, numpy, rich, psutil or lark.
"""
