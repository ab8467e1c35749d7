"""The names of a layer's nodes."""

from __future__ import annotations

from abc import ABC, abstractmethod

from minipool.dag.exceptions import CannotInvertFormat, LayerNameContainsSeparator

DEFAULT_SEPARATOR = ":"


class NodeNameFormatter(ABC):
    """How a node's name is made of its layer's name and its number, and read again."""

    @abstractmethod
    def generate(self, layer_name: str, node_index: int) -> str:
        """The name of a node."""

    @abstractmethod
    def parse(self, node_name: str) -> tuple[str, int]:
        """The layer's name and the number, from a name that `generate` made."""


class SimpleFormatter(NodeNameFormatter):
    """Names such as `layer:5`."""

    def __init__(self, separator: str = DEFAULT_SEPARATOR, index_format: str = "{:d}", offset: int = 0) -> None:
        self.separator, self.index_format, self.offset = separator, index_format, offset

    def generate(self, layer_name: str, node_index: int) -> str:
        """The name of a node."""
        if self.separator in layer_name:
            raise LayerNameContainsSeparator(f"{layer_name} holds the separator {self.separator}")
        name = f"{layer_name}{self.separator}{self.index_format.format(node_index + self.offset)}"
        # Rescue files are read by it.
        if self.parse(name) != (layer_name, node_index):
            raise CannotInvertFormat(
                f"{name} does not tell its layer and number again", expected="another index_format"
            )
        return name

    def parse(self, node_name: str) -> tuple[str, int]:
        """The layer's name and the number."""
        layer, _, number = node_name.partition(self.separator)
        try:
            return layer, int(number) - self.offset
        except ValueError:
            raise CannotInvertFormat(f"{node_name} is not the name of a layer's node") from None
