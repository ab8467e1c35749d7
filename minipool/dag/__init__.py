"""Graphs of jobs from Python: layers of nodes and the edges between them, written as DAG files.

The classes and their names are those of HTCondor's `htcondor.dags`: `dag = DAG()`, `dag.layer(name=..., vars=...)`,
`layer.child_layer(...)`, `write_dag(dag, directory)`.
"""

from minipool.dag import exceptions
from minipool.dag.edges import BaseEdge, Grouper, JoinFactory, JoinNode, ManyToMany, OneToOne, Slicer
from minipool.dag.formatter import DEFAULT_SEPARATOR, NodeNameFormatter, SimpleFormatter
from minipool.dag.graph import DAG, DotConfig, NodeStatusFile
from minipool.dag.nodes import (
    BaseNode,
    DAGAbortCondition,
    FinalNode,
    NodeLayer,
    Nodes,
    Script,
    SubDAG,
    WalkOrder,
)
from minipool.dag.rescue import find_rescue_file, rescue
from minipool.dag.writer import CONFIG_FILE_NAME, DEFAULT_DAG_FILE_NAME, write_dag

__all__ = [
    "CONFIG_FILE_NAME",
    "DAG",
    "DEFAULT_DAG_FILE_NAME",
    "DEFAULT_SEPARATOR",
    "BaseEdge",
    "BaseNode",
    "DAGAbortCondition",
    "DotConfig",
    "FinalNode",
    "Grouper",
    "JoinFactory",
    "JoinNode",
    "ManyToMany",
    "NodeLayer",
    "NodeNameFormatter",
    "NodeStatusFile",
    "Nodes",
    "OneToOne",
    "Script",
    "SimpleFormatter",
    "Slicer",
    "SubDAG",
    "WalkOrder",
    "exceptions",
    "find_rescue_file",
    "rescue",
    "write_dag",
]
