"""What torchtitan's ConfigManager needs of the package tyro: `--section.key value` laid over a dataclass."""

import dataclasses
import types
import typing


class constructors:  # noqa: N801, the name of tyro's module
    class ConstructorRegistry:
        def primitive_rule(self, rule):
            return rule

    class PrimitiveTypeInfo:
        pass

    class PrimitiveConstructorSpec:
        def __class_getitem__(cls, _):
            return cls


def _value(kind, text):
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        kinds = [each for each in typing.get_args(kind) if each is not type(None)]
        return None if text == "None" else _value(kinds[0], text)
    if origin is typing.Literal:
        return next(each for each in typing.get_args(kind) if str(each) == text)
    if origin is list or kind is list:
        inner = (typing.get_args(kind) or (str,))[0]
        return [_value(inner, part) for part in text.split(",")]
    if kind is bool:
        return {"true": True, "false": False}[text.lower()]
    return kind(text) if kind in (int, float, str) else text


def _set(target, key, text):
    *sections, name = key.replace("-", "_").split(".")
    for section in sections:
        target = getattr(target, section)
    if text is None:  # a switch
        negated = name.startswith("no_") and not hasattr(target, name)
        setattr(target, name[3:] if negated else name, not negated)
        return
    if not any(field.name == name for field in dataclasses.fields(target)):
        raise SystemExit(f"unrecognised option --{key}")
    setattr(target, name, _value(typing.get_type_hints(type(target))[name], text))


def cli(_, args, default, registry=None):
    args = list(args)
    while args:
        key = args.pop(0)
        if not key.startswith("--"):
            raise SystemExit(f"unexpected argument {key}")
        key, equals, text = key[2:].partition("=")
        if not equals:
            text = args.pop(0) if args and not args[0].startswith("--") else None
        _set(default, key, text)
    return default
