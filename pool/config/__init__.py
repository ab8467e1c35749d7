"""The configuration language and the table of knobs."""

from pool.config.config import Config
from pool.config.load import load_config

__all__ = ["Config", "load_config"]
