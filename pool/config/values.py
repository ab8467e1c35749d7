"""Whether each knob that somebody has set can be read as what it is: asked before a pool is started with it."""

from __future__ import annotations

from pool.config import knobs
from pool.config.config import Config


def check_values(config: Config) -> None:
    """ConfigError, with file and line, for the first value that is not of its knob's type, or not within its range."""
    for name in config.knobs_set():
        knob = knobs.find(name.rpartition(".")[2])
        # An empty value stands for the default, and needs no type.
        if knob is None or not config[name]:
            continue
        match knob.kind:
            case "bool":
                config.bool(name)
            case "int":
                _within(config, name, knob, config.int(name))
            case "float":
                _within(config, name, knob, config.float(name))
            case "seconds":
                _within(config, name, knob, config.seconds(name))
            case "bytes":
                config.bytes(name)
            case "expr":
                config.expr(name)


def _within(config: Config, name: str, knob: knobs.Knob, number: float) -> None:
    """The range is the knob's also where `name` has a daemon's name before it."""
    if not knob.allows(number):
        raise config.error(name, f"{name} = {number} is out of range ({knob.range_text()})")
