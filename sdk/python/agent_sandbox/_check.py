"""Arguments, checked against the annotations of the methods that take them: what is of a wrong type is a `TypeError` that names the argument,
before anything is done."""

from __future__ import annotations

import collections.abc
import os
import typing
from functools import wraps
from typing import Any, Callable, Dict, List, Literal, Mapping, Optional, Tuple, Type, TypeVar, Union, cast

T = TypeVar("T")
Function = TypeVar("Function", bound=Callable[..., Any])
Says = Callable[[Any], Optional[str]]  # what is wrong with a value, as "not int"; None: nothing
OWN = frozenset(("self", "cls", "return", "cmd"))  # `cmd` is also any iterable: commands.words
BYTES = (bytes, bytearray, memoryview)
PLAIN: Dict[Any, Tuple[Any, str]] = {  # Annotation → (classes, as it is told)
    str: (str, "a str"),
    int: (int, "an int"),
    float: ((int, float), "a number"),
    bool: (bool, "True or False"),
    bytes: (BYTES, "bytes"),
    type(None): (type(None), "None"),
}


def kind(value: Any) -> str:
    """The type of a value, as a message tells it. The value itself may be a secret."""
    return "None" if value is None else type(value).__name__


def _plain(classes: Any, is_number: bool) -> Says:
    def says(value: Any) -> Optional[str]:
        fits = isinstance(value, classes) and not (is_number and isinstance(value, bool))
        return None if fits else f"not {kind(value)}"

    return says


def _is(value: Any, classes: Any) -> bool:
    """isinstance, after which a type checker still takes the value for Any."""
    return isinstance(value, classes)


def _mapping(key: Says, value: Says) -> Says:
    def says(given: Any) -> Optional[str]:
        if not _is(given, collections.abc.Mapping):
            return f"not {kind(given)}"
        for name, one in given.items():
            if key(name) is not None:
                return f"and one key is {kind(name)}"
            if value(one) is not None:
                return f"and the value of {name!r} is {kind(one)}"
        return None

    return says


def _sequence(item: Says) -> Says:
    def says(given: Any) -> Optional[str]:
        if _is(given, (str, *BYTES)) or not _is(given, collections.abc.Sequence):
            return f"not {kind(given)}"
        wrong = [one for one in given if item(one) is not None]
        return f"and one of it is {kind(wrong[0])}" if wrong else None

    return says


def _iterable(given: Any) -> Optional[str]:
    return f"not {kind(given)}" if isinstance(given, (str, *BYTES)) or not hasattr(given, "__iter__") else None


def _callable(given: Any) -> Optional[str]:
    return None if callable(given) else f"not {kind(given)}"


def _class(base: Any) -> Says:
    return lambda given: None if isinstance(given, type) and issubclass(given, base) else f"not {kind(given)}"


def _union(parts: List[Says]) -> Says:
    def says(given: Any) -> Optional[str]:
        why: Optional[str] = None
        for part in parts:
            told = part(given)
            if told is None:
                return None
            if why is None or told.startswith("and"):
                why = told
        return why

    return says


def rule(hint: Any) -> Optional[Tuple[Says, str]]:
    """What an annotation asks for, and how that is told; None: anything goes."""
    if hint is Any:
        return None
    if hint in PLAIN:
        classes, told = PLAIN[hint]
        return _plain(classes, hint in (int, float)), told
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Union:
        rules = [rule(one) for one in inner]
        given = [one for one in rules if one is not None]
        if len(given) < len(rules):
            return None
        return _union([one[0] for one in given]), " or ".join(dict.fromkeys(one[1] for one in given))
    if origin is Literal:
        return rule(type(inner[0]))
    if origin is collections.abc.Mapping:
        key, value = rule(inner[0]), rule(inner[1])
        told = f"a mapping of {key[1] if key else 'anything'} to {value[1] if value else 'anything'}"
        return _mapping(key[0] if key else _anything, value[0] if value else _anything), told
    if origin is collections.abc.Sequence:
        item = rule(inner[0])
        return _sequence(item[0] if item else _anything), f"a list of which each is {item[1] if item else 'anything'}"
    if origin is collections.abc.Iterable:
        return _iterable, "an iterable"
    if origin is typing.get_origin(Callable[..., Any]):
        return _callable, "a function"
    if origin is type and isinstance(inner[0], type):
        return _class(inner[0]), f"a subclass of {inner[0].__name__}"
    if origin is os.PathLike or hint is os.PathLike:
        return _plain((os.PathLike, bytes), False), "a path"
    if isinstance(hint, type):
        return _plain(hint, False), f"a {hint.__name__}"
    return None


def _anything(given: Any) -> Optional[str]:
    return None


def _rules(function: Any) -> Dict[str, Tuple[Says, str]]:
    made = {name: rule(hint) for name, hint in typing.get_type_hints(function).items() if name not in OWN}
    named = function.__code__.co_varnames[: function.__code__.co_argcount + function.__code__.co_kwonlyargcount]
    return {name: one for name, one in made.items() if one is not None and name in named}


class _Check:
    """The check of one function; what it asks for is worked out when it is first called."""

    def __init__(self, function: Any, place: str) -> None:
        self._function = function
        self._place = place
        self._names: Tuple[str, ...] = function.__code__.co_varnames[: function.__code__.co_argcount]
        self._made: Optional[Dict[str, Tuple[Says, str]]] = None

    def __call__(self, given: Tuple[Any, ...], named: Mapping[str, Any]) -> None:
        rules = self._made
        if rules is None:
            rules = self._made = _rules(self._function)
        for name, value in (*zip(self._names, given), *named.items()):
            one = rules.get(name)
            wrong = one[0](value) if one is not None else None
            if one is not None and wrong is not None:
                raise TypeError(f"'{name}' of {self._place} is {one[1]}, {wrong}")


def checked_function(function: Function, place: Optional[str] = None) -> Function:
    """A function whose arguments are checked."""
    inner: Any = function
    if inner.__code__.co_argcount + inner.__code__.co_kwonlyargcount == 0:
        return function
    check = _Check(inner, place or inner.__qualname__)

    if inner.__code__.co_flags & 0x80:  # a coroutine function

        @wraps(inner)
        async def later(*given: Any, **named: Any) -> Any:
            check(given, named)
            return await inner(*given, **named)

        return cast(Function, later)

    @wraps(inner)
    def now(*given: Any, **named: Any) -> Any:
        check(given, named)
        return inner(*given, **named)

    return cast(Function, now)


def checked(cls: Type[T]) -> Type[T]:
    """A class whose public methods check their arguments, and its making."""
    for name, value in list(vars(cls).items()):
        if name.startswith("_") and name != "__init__":
            continue
        function = getattr(value, "__func__", value)
        code = getattr(function, "__code__", None)
        if code is None or code.co_argcount + code.co_kwonlyargcount < 2 or isinstance(value, staticmethod):
            continue
        place = cls.__name__ if name == "__init__" else f"{cls.__name__}.{name}"
        made = checked_function(function, place)
        setattr(cls, name, classmethod(made) if isinstance(value, classmethod) else made)
    return cls
