"""A table of ads as numpy columns: expressions over all rows at once, with the answers of the scalar evaluator.

Only long-lived programs that look at many ads at a time import this (it needs numpy).
"""

from pool.classad.columns.few import FewRows
from pool.classad.columns.table import Table
from pool.classad.columns.vector import Vector

__all__ = ["FewRows", "Table", "Vector"]
