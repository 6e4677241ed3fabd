"""Keyword arguments as the words of a command line."""

import json
import os
from typing import Any, Dict, List


def _text(name: str, value: Any) -> str:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if name in ("model", "cluster"):
        if hasattr(value, "to_dict"):  # a configuration of transformers
            value = value.to_dict()
        if isinstance(value, dict):
            return json.dumps(value, default=str)
    return str(value)


def words_of(options: Dict[str, Any]) -> List[str]:
    """{"tp": 8, "set": ["compile=true"], "sequence_parallel": False} as command-line words; None is not given."""
    words: List[str] = []
    for name, value in options.items():
        option = "--" + name.strip("_").replace("_", "-")
        if value is None:
            continue
        if isinstance(value, bool):
            if value:
                words.append(option)
            elif name == "sequence_parallel":
                words.append("--no-sequence-parallel")
            continue
        if name == "set" and isinstance(value, dict):
            value = [f"{key}={str(what).lower() if isinstance(what, bool) else what}" for key, what in value.items()]
        if name == "vary" and isinstance(value, dict):
            value = [f"{key}=" + ",".join(str(one) for one in what) for key, what in value.items()]
        if isinstance(value, (list, tuple)):
            if name in ("stage_layers", "recompute_modules"):
                value = ",".join(str(one) for one in value)
            else:
                words.extend(f"{option}={_text(name, one)}" for one in value)
                continue
        words.append(f"{option}={_text(name, value)}")
    return words
