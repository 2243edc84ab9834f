"""Docstrings speak reStructuredText, as PyG's do; the site speaks Markdown. This is the translation, for griffe."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import griffe
from latex2mathml.converter import convert

_ROLE = re.compile(r":(?:class|func|meth|mod|attr|data|obj):`~?([^`]+)`")
_MATH_ROLE = re.compile(r":math:`([^`]+)`")
_MATH_BLOCK = re.compile(r"^\.\. math::(?P<first>[^\n]*)\n(?P<rest>(?:[ \t]+[^\n]*\n|\n)*)", flags=re.M)
_DOUBLE = re.compile(r"``([^`]+)``")
_EXAMPLE = re.compile(r"^(?P<indent>[ ]*)>>> .*(?:\n(?P=indent)(?! *$).*)*", flags=re.M)
_SHARED = re.compile(r"^(?P<indent>[ ]+)(?P<names>\w+(?:, \w+)+):(?P<text>.*(?:\n(?P=indent) +.*)*)$", flags=re.M)


def to_markdown(text: str) -> str:
    r"""Return a docstring with its roles, code and equations in Markdown; equations become MathML.

    >>> to_markdown("see :class:`~graphfaith.KEC` and ``p``")
    'see `KEC` and `p`'
    """
    # What is code stays as it is.
    parts, last = [], 0
    for found in _EXAMPLE.finditer(text):
        parts += [_prose(text[last : found.start()]), f"{found['indent']}```pycon\n{found[0]}\n{found['indent']}```"]
        last = found.end()
    return "".join([*parts, _prose(text[last:])]).rstrip("\n")


def _prose(text: str) -> str:
    text = _SHARED.sub(_apart, text).replace("][", "]\\[")
    text = _MATH_BLOCK.sub(_block, text + "\n")[:-1] if ".. math::" in text else text
    text = _MATH_ROLE.sub(lambda found: convert(found.group(1)), text)
    text = _ROLE.sub(lambda found: f"`{found.group(1).rpartition('.')[2]}`", text)
    return _DOUBLE.sub(r"`\1`", text)


def _apart(found: re.Match[str]) -> str:
    """Give each of several arguments that share a line its own one."""
    return "\n".join(f"{found['indent']}{name}:{found['text']}" for name in found["names"].split(", "))


def _block(found: re.Match[str]) -> str:
    latex = found["first"].strip() + " " + " ".join(textwrap.dedent(found["rest"]).split())
    return f"\n{convert(latex.strip(), display='block')}\n\n"


class Markdown(griffe.Extension):
    """Translate every docstring when it is loaded."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Translate the docstring of an object."""
        if obj.docstring is not None:
            obj.docstring.value = to_markdown(obj.docstring.value)

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Let public names mean the functions that they mean in Python, and show what defaults are, not their names."""
        for name in ("figure", "page") if "public" in pkg.members else ():
            # `from .view import figure` is the function, although a module of that name is there as well.
            pkg["public"].members[name].target = pkg["view"][name][name]
        for member in _members(pkg):
            if member.is_function:
                for parameter in member.parameters:
                    parameter.default = _value(parameter.default, pkg)
            elif member.is_attribute:  # A field of a dataclass is a parameter as well.
                member.value = _value(member.value, pkg)


def _members(owner: griffe.Object) -> Iterator[griffe.Object]:
    for member in owner.members.values():
        if not member.is_alias:
            yield member
            yield from _members(member)


def _value(default: Any, pkg: griffe.Module) -> Any:
    """Return the value of a constant of the package, `"anchored-kec"` for `METHOD`, and everything else as it is."""
    if isinstance(default, griffe.ExprName) and default.name.isupper():
        path = default.canonical_path.removeprefix(f"{pkg.path}.")
        with suppress(KeyError):
            return pkg[path].value
    return default
