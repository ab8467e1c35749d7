"""What can be wrong with a graph that a program describes."""

from pool.base.errors import UserError


class DAGsException(UserError):
    """The root of them."""


class OneToOneEdgeNeedsSameNumberOfVars(DAGsException):
    """Two layers of different sizes are connected one to one."""


class IncompatibleGrouper(DAGsException):
    """Two layers do not part into as many groups."""


class DuplicateNodeName(DAGsException):
    """Two nodes have one name."""


class UnrecognizedWalkOrder(DAGsException):
    """An order that is no WalkOrder."""


class LayerNameContainsSeparator(DAGsException):
    """A layer's name holds what parts it from the number of a node."""


class NoRescueFileFound(DAGsException):
    """There is no rescue file."""


class CannotInvertFormat(DAGsException):
    """From the name of a node the layer and the number do not follow."""
