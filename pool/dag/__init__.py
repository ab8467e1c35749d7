"""Graphs of jobs: the language of DAG files, the course of a graph, and the files that tell of it. Decisions only.

HTCondor's condor_dagman has the same part: automated-workflows/dagman-introduction and the pages after it.
"""
