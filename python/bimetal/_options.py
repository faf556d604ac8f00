"""Keyword arguments as options of a command line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

#: Options of several words, each with a value of its own, that take a mapping.
_MAPPINGS = ("set", "member", "vary")
#: Sizes of which a float is a share of the footprint.
_SIZES = ("ssd_size", "hdd_size")
#: Switches that take `on` or `off`.
_SWITCHES = ("merge",)


def arguments(options: Mapping[str, Any]) -> list[str]:
    """Returns the options of a command line; `None` and `False` are not given.

    >>> arguments({"ssd_size": 0.1, "seed": 3, "compact": True, "set": {"timeout": "30s"}, "hdd": None})
    ['--ssd-size', '10%', '--seed', '3', '--compact', '--set', 'timeout=30s']
    """
    line: list[str] = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is None or (value is False and name not in _SWITCHES):
            continue
        if name in _MAPPINGS:
            for key, of_key in dict(value).items():
                line += [flag, f"{key}={_text(of_key)}"]
        elif name in _SWITCHES:
            line += [flag, _text(value)]
        elif value is True:
            line.append(flag)
        elif name in _SIZES and isinstance(value, float):
            line += [flag, f"{value * 100:.10g}%"]
        else:
            line += [flag, _text(value)]
    return line


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, (list, tuple)):
        return ",".join(_text(item) for item in value)
    return str(value)
