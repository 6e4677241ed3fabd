"""What DeepSpeed's configuration needs of the package pydantic: fields with defaults and aliases, nested models,
enumerations, validators; unknown keys are refused. Values are converted as far as JSON files need it."""

import collections.abc
import enum
import types
import typing

_MISSING = object()
PositiveInt = int


def ConfigDict(**settings):  # noqa: N802
    return settings


class FieldInfo:
    def __init__(self, default=_MISSING, alias=None, json_schema_extra=None, default_factory=None, ge=None, le=None,
                 gt=None, lt=None, **_):
        self.default, self.alias, self.factory = default, alias, default_factory
        self.json_schema_extra, self.bounds = json_schema_extra, (ge, le, gt, lt)

    def is_required(self):
        return self.default is _MISSING and self.factory is None

    def get_default(self):
        return self.factory() if self.factory else self.default


def Field(default=_MISSING, **settings):  # noqa: N802
    return FieldInfo(default, **settings)


def _marked(kind, names, mode):
    def mark(function):
        inner = function.__func__ if isinstance(function, (classmethod, staticmethod)) else function
        inner.validator = (kind, names, mode)
        return inner

    return mark


def model_validator(mode):
    return _marked("model", (), mode)


def field_validator(*names, mode="after"):
    return _marked("field", names, mode)


def field_serializer(*_, **__):
    return lambda function: function


def _converted(kind, value):
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in inner:
            return None
        kinds = [each for each in inner if each is not type(None)]
        exact = [each for each in kinds if isinstance(each, type) and type(value) is each]
        return _converted((exact or kinds)[0], value)
    if isinstance(kind, type) and issubclass(kind, BaseModel) and isinstance(value, collections.abc.Mapping):
        return kind(**value)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(value).value
    if kind in (int, float) and isinstance(value, (int, float, str)) and not isinstance(value, bool):
        if kind is int and float(value) != int(float(value)):
            raise ValueError(f"{value} is not a whole number")
        return value if isinstance(value, kind) else kind(float(value))
    return value


class BaseModel:
    model_fields: typing.ClassVar[dict] = {}
    model_config: typing.ClassVar[dict] = {}

    def __init_subclass__(cls, **_):
        super().__init_subclass__()
        cls.model_fields, cls._kinds = dict(cls.model_fields), dict(getattr(cls, "_kinds", {}))
        for name, kind in cls.__dict__.get("__annotations__", {}).items():
            if name.startswith("_") or name.startswith("model_") and name in ("model_config", "model_fields"):
                continue
            default = cls.__dict__.get(name, _MISSING)
            cls.model_fields[name] = default if isinstance(default, FieldInfo) else FieldInfo(default)
            cls._kinds[name] = kind
            if name in cls.__dict__:
                delattr(cls, name)
        cls._validators = list(getattr(cls, "_validators", []))
        cls._validators += [each.validator + (each,) for each in cls.__dict__.values() if hasattr(each, "validator")]

    def __init__(self, **data):
        object.__setattr__(self, "model_fields_set", set())
        for kind, _, mode, function in self._validators:
            if kind == "model" and mode == "before":
                data = function(type(self), data)
        aliases = {info.alias: name for name, info in self.model_fields.items() if info.alias}
        given = {aliases.get(key, key): value for key, value in data.items()}
        unknown = set(given) - set(self.model_fields)
        if unknown and self.model_config.get("extra") == "forbid":
            raise ValueError(f"{type(self).__name__}: extra inputs are not permitted: {', '.join(sorted(unknown))}")
        for name, info in self.model_fields.items():
            if name not in given and info.is_required():
                raise ValueError(f"{type(self).__name__}: field required: {name}")
            self._store(name, given[name] if name in given else info.get_default())
        self.model_fields_set.update(set(given) & set(self.model_fields))
        for kind, _, mode, function in self._validators:
            if kind == "model" and mode == "after":
                function(self)

    def _store(self, name, value):
        for when in ("before", "after"):
            for kind, names, mode, function in self._validators:
                if kind == "field" and mode == when and name in names:
                    info = types.SimpleNamespace(field_name=name, data=self.__dict__)
                    value = function(type(self), value, info) if function.__code__.co_argcount > 2 else function(type(self), value)
            if when == "before":
                value = _converted(self._kinds[name], value)
        low, high, above, below = self.model_fields[name].bounds
        if isinstance(value, (int, float)) and (
                (low is not None and value < low) or (high is not None and value > high)
                or (above is not None and value <= above) or (below is not None and value >= below)):
            raise ValueError(f"{type(self).__name__}.{name}: {value} is out of its range")
        self.__dict__[name] = value

    def __setattr__(self, name, value):
        if name in self.model_fields:
            self._store(name, value)
            self.model_fields_set.add(name)
        else:
            self.__dict__[name] = value

    def model_dump(self, **_):
        return {name: value.model_dump() if isinstance(value, BaseModel) else value
                for name, value in self.__dict__.items() if name in self.model_fields}

    dict = model_dump

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in self.model_dump().items())})"
