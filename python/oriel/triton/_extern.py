# SPDX-License-Identifier: BSD-3-Clause
"""How a Python function becomes a call of the bitcode inside a Triton kernel.

A call is declared by a function with an empty body.  The annotations of its parameters are the
types of the C function oriel_triton_<name> in src/bitcode:

    @extern
    def fence(win: Address, peer: Int32) -> Int32:
        '''...'''

In a kernel the call converts its arguments to these types.  Addresses may be pointers or int64.
All arguments are scalars: the whole block makes the call once.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable

from triton.language import core

PREFIX = "oriel_triton_"


class Int32:
    """An int of 32 bits: a rank, an id, an operation, a status, milliseconds."""

    ctype, dtype = "int", core.int32


class Int64:
    """An int of 64 bits: bytes, an offset, a word.  Unsigned values keep their bits."""

    ctype, dtype = "int64_t", core.int64


class Address(Int64):
    """An address in device memory: a pointer of the kernel or an int64."""


Scalar = type[Int32] | type[Int64]

# name: (types of the parameters, type of the result), filled by extern()
CALLS: dict[str, tuple[list[Scalar], Scalar]] = {}


def _is_null(value: Any) -> bool:
    """A literal 0: an address that is not given."""
    return isinstance(value, int) and value == 0


def _convert(call: str, name: str, value: Any, to: Scalar, semantic: Any) -> core.tensor:
    """The argument as a scalar of the declared type; a TypeError says what is wrong with it."""
    value = core._unwrap_if_constexpr(value)
    if isinstance(value, float):
        raise TypeError(f"oriel.triton.{call}: {name} is {value!r}; an integer is needed")
    scalar = semantic.to_tensor(value)
    if scalar.type.is_block():
        shape = [core._unwrap_if_constexpr(length) for length in scalar.shape]
        raise TypeError(
            f"oriel.triton.{call}: {name} is a tensor of shape {shape}; the whole block makes one "
            "call, with scalars"
        )
    if scalar.dtype.is_ptr():
        if to is not Address:
            raise TypeError(
                f"oriel.triton.{call}: {name} is a pointer; an integer is needed (cast it with "
                ".to(tl.int64) if you mean the address)"
            )
    elif not scalar.dtype.is_int():
        raise TypeError(f"oriel.triton.{call}: {name} is {scalar.dtype}; an integer is needed")
    elif to is Address and scalar.dtype.primitive_bitwidth < 64 and not _is_null(value):
        raise TypeError(
            f"oriel.triton.{call}: {name} is {scalar.dtype}; an address is a pointer or an int64"
        )
    return semantic.cast(scalar, to.dtype)


def _call(symbol: str, scalars: list, types: list[Scalar], result: Scalar, pure: bool, semantic):
    """Emits the call of a function of the bitcode."""
    symbols = {tuple(one.dtype for one in types): (symbol, result.dtype)}
    return core.extern_elementwise("", "", scalars, symbols, is_pure=pure, _semantic=semantic)


def _ready(scalars: dict[str, core.tensor], semantic: Any) -> core.tensor:
    """The last argument of the put family: oriel_triton_put_ready() in src/bitcode/data.h.

    It is pure, so Triton makes the call before a loop if it can.
    """
    source = scalars.get("src", semantic.to_tensor(0))
    args = [scalars["win"], scalars["peer"], semantic.cast(source, core.int64)]
    return _call(PREFIX + "put_ready", args, [Int64, Int32, Int64], Int64, True, semantic)


def _declare(function: Callable[..., Any], has_ready: bool) -> Callable[..., Any]:
    call = function.__name__
    signature = inspect.signature(function, eval_str=True)
    types = [parameter.annotation for parameter in signature.parameters.values()]
    result = signature.return_annotation
    passed = types + [Int64] * has_ready
    CALLS[call] = (passed, result)

    @functools.wraps(function)
    def emit(*args: Any, _semantic: Any = None, **kwargs: Any) -> core.tensor:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        scalars = {
            name: _convert(call, name, value, to, _semantic)
            for (name, value), to in zip(bound.arguments.items(), types)
        }
        values = list(scalars.values())
        if has_ready:
            values.append(_ready(scalars, _semantic))
        # Not pure: Triton keeps the call, and keeps its place among loads and stores.
        return _call(PREFIX + call, values, passed, result, False, _semantic)

    # Triton passes _semantic only to functions whose signature has it.
    hidden = inspect.Parameter("_semantic", inspect.Parameter.KEYWORD_ONLY, default=None)
    emit.__signature__ = signature.replace(parameters=[*signature.parameters.values(), hidden])
    return core.builtin(emit)


def extern(function: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a call of the bitcode out of a declaration: see the head of this file."""
    return _declare(function, has_ready=False)


def extern_put(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same for the put family, which gets one argument more: _ready()."""
    return _declare(function, has_ready=True)
