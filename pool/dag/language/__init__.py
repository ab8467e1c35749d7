"""The language of DAG files: text to a `Dag`, with the place of everything and a hint where a word is misspelt.

HTCondor's condor_dagman has the same part (dag_parser): automated-workflows/dagman-reference of its manual.
"""
