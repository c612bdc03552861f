# SPDX-License-Identifier: BSD-3-Clause
"""The C API as it is: constants, structs and functions of include/oriel, by ctypes.

Calls release Python's global lock, because ctypes.CDLL does.  Names are those of C, so the headers
document them.  A function that an older library lacks raises an error when it is called, not when
the package is imported.  python/tests/test_headers.py compares this file with the headers.
"""

from __future__ import annotations

import ctypes
import operator
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_char_p,
    c_double,
    c_int,
    c_int32,
    c_size_t,
    c_ubyte,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any, Callable, NoReturn

from ._error import Error
from ._library import library_path

VERSION = (0, 1, 0)

STATUSES = {
    "OK": 0,
    "EINVAL": -1,
    "ERANGE": -2,
    "ENOMEM": -3,
    "ETIMEDOUT": -4,
    "EABORTED": -5,
    "EPEER": -6,
    "ENOTCONN": -7,
    "EUNSUPPORTED": -8,
    "EBUSY": -9,
    "EMISMATCH": -10,
    "ESTALE": -11,
    "EAUTH": -12,
    "EPROTO": -13,
    "EBOOT": -14,
    "EEXPORT": -15,
    "ESYSTEM": -16,
    "ECONFIG": -17,
    "EREMOTE": -18,
    "EDEVICE": -19,
    "EVERSION": -20,
}

CONSTANTS = {
    "ORIEL_ADD": 1,
    "ORIEL_SET": 2,
    "ORIEL_EQ": 1,
    "ORIEL_NE": 2,
    "ORIEL_GT": 3,
    "ORIEL_GE": 4,
    "ORIEL_LT": 5,
    "ORIEL_LE": 6,
    "ORIEL_WORLD": 0,
    "ORIEL_NODE": 1,
    "ORIEL_CONNECT_ALL": 1,
    "ORIEL_CONNECT_NONE": 2,
    "ORIEL_PEER_NONE": 0,
    "ORIEL_PEER_SELF": 1,
    "ORIEL_PEER_MAPPED": 2,
    "ORIEL_PEER_QUEUED": 3,
    "ORIEL_NICS_MAX": 2,
    "ORIEL_INLINE_PEERS": 8,
    "ORIEL_GATHER_AUTO": 0,
    "ORIEL_GATHER_DIRECT": 1,
    "ORIEL_GATHER_RING": 2,
    "ORIEL_GATHER_DOUBLING": 3,
    "ORIEL_GATHER_POLICY_DEFAULT": 0,
    "ORIEL_GATHER_BY_SIZE": 1,
    "ORIEL_GATHER_FASTEST": 2,
    "ORIEL_GATHER_NO_SMS": 3,
    "ORIEL_GATHER_UNGUARDED": 1,
}

# ---- structs -------------------------------------------------------------------------------------


class oriel_boot_id(Structure):
    _fields_ = [("bytes", c_ubyte * 128)]


BOOT_ALLGATHER = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_size_t)
BOOT_ABORT = CFUNCTYPE(None, c_void_p, c_int)
BOOT_DESTROY = CFUNCTYPE(None, c_void_p)


class oriel_boot_ops(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("allgather", BOOT_ALLGATHER),
        ("abort", BOOT_ABORT),
        ("destroy", BOOT_DESTROY),
    ]


class oriel_comm_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("device", c_char_p),
        ("topology", c_char_p),
        ("timeout", c_double),
        ("connect", c_int),
        ("reserved", c_int),
    ]


class oriel_window_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("signals", c_uint32),
        ("counters", c_uint32),
        ("barriers", c_uint32),
        ("checked", c_int32),
        ("buffer", c_void_p),
        ("bytes", c_uint64),
        ("staging_slot_bytes", c_uint64),
        ("staging_depth", c_uint32),
        ("staging_channels", c_uint32),
        ("first_count", c_uint64),
        ("boxes", c_uint32),
        ("box_bytes", c_uint32),
    ]


class oriel_source(Structure):
    _fields_ = [("address", c_uint64), ("bytes", c_uint64), ("key", c_uint32 * 2)]


class oriel_remote(Structure):
    _fields_ = [("address", c_uint64), ("bytes", c_uint64), ("key", c_uint32 * 2)]


class oriel_allgather_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("algorithm", c_int32),
        ("flags", c_uint32),
        ("offset", c_uint64),
        ("bytes", c_uint64),
        ("chunk_bytes", c_uint64),
        ("policy", c_int32),
        ("reserved", c_int32),
    ]


class oriel_alltoallv_setting(Structure):
    _fields_ = [("blocks", c_uint32), ("warps", c_uint32), ("chunk_bytes", c_uint64)]


class oriel_alltoallv_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("slot_bytes", c_uint64),
        ("recv_bytes", c_uint64),
        ("send_bytes", c_uint64),
        ("elem_bytes", c_uint64),
        ("synchronised", c_int32),
        ("reserved", c_int32),
        ("expect_bytes", c_uint64),
        ("first_count", c_uint64),
        ("mapped", oriel_alltoallv_setting),
        ("queued", oriel_alltoallv_setting),
        ("recv_memory", c_void_p),
        ("recv_memory_bytes", c_uint64),
    ]


class oriel_team_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("channels", c_uint32),
        ("cells", c_uint32),
        ("slot_bytes", c_uint64),
        ("first_count", c_uint64),
        ("line_bytes", c_uint64),
    ]


class oriel_alltoallv_plan_info(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("mapped", oriel_alltoallv_setting),
        ("queued", oriel_alltoallv_setting),
        ("agreed", c_uint32),
        ("reserved", c_uint32),
    ]


class oriel_alltoallv_args(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("send", c_void_p),
        ("send_sizes", c_void_p),
        ("send_offsets", c_void_p),
        ("recv_sizes", c_void_p),
        ("recv_offsets", c_void_p),
        ("expect_bytes", c_uint64),
    ]


# The flat handles are only carried, never read by Python: their bytes are enough.
class oriel_comm_dev(Structure):
    _fields_ = [("words", c_uint64 * 13)]


class oriel_window_dev(Structure):
    _fields_ = [("words", c_uint64 * 136)]


STRUCTS: list[type[Structure]] = [
    oriel_boot_id,
    oriel_boot_ops,
    oriel_comm_options,
    oriel_window_options,
    oriel_source,
    oriel_remote,
    oriel_allgather_options,
    oriel_alltoallv_options,
    oriel_alltoallv_args,
    oriel_alltoallv_setting,
    oriel_alltoallv_plan_info,
    oriel_team_options,
]

# ---- functions -----------------------------------------------------------------------------------


class _int(c_int):
    """An int argument; ctypes alone would cut a longer one to 32 bits without a word."""

    @classmethod
    def from_param(cls, value: Any) -> c_int:
        number = operator.index(value)
        if not -(2**31) <= number < 2**31:
            raise OverflowError(f"{number} does not fit an int of 32 bits")
        return c_int(number)


_handle = c_void_p
_out = POINTER(c_void_p)
_text = c_char_p
_window_word = [_handle, _int, _int, _int, c_uint64]  # window, peer, id, op or cmp, value
_atomic = [_handle, _int, c_uint64, c_uint64]  # window, peer, offset, value; then the old value
_word = [_handle, c_uint64, _int, _int, c_uint64]  # window, offset, type, cmp, value
_transfer = [_handle, _int, c_uint64, c_void_p, c_uint64, c_uint64]  # ..., source, offset, bytes

# name: (result, arguments)
FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "oriel_header_check": (c_int, [_int]),
    "oriel_version": (_text, []),
    "oriel_status_name": (_text, [_int]),
    "oriel_status_text": (_text, [_int]),
    "oriel_last_error": (_text, []),
    "oriel_init": (c_int, [_out]),
    "oriel_finalize": (c_int, [_handle]),
    "oriel_boot_env": (c_int, [_out]),
    "oriel_boot_threads": (c_int, [_int, _out]),
    "oriel_boot_make_id": (c_int, [POINTER(oriel_boot_id)]),
    "oriel_boot_join": (c_int, [POINTER(oriel_boot_id), _int, _int, _out]),
    "oriel_boot_user": (c_int, [POINTER(oriel_boot_ops), c_void_p, _int, _int, _out]),
    "oriel_boot_rank": (c_int, [_handle]),
    "oriel_boot_nranks": (c_int, [_handle]),
    "oriel_boot_destroy": (c_int, [_handle]),
    "oriel_comm_create": (c_int, [_handle, POINTER(oriel_comm_options), _out]),
    "oriel_comm_split": (c_int, [_handle, _int, _int, _out]),
    "oriel_comm_shrink": (c_int, [_handle, _out]),
    "oriel_comm_subset": (c_int, [_handle, POINTER(c_int), _int, _int, _out]),
    "oriel_comm_destroy": (c_int, [_handle]),
    "oriel_comm_abort": (c_int, [_handle, _int]),
    "oriel_comm_status": (c_int, [_handle]),
    "oriel_comm_rank": (c_int, [_handle]),
    "oriel_comm_size": (c_int, [_handle]),
    "oriel_comm_nodes": (c_int, [_handle]),
    "oriel_comm_node": (c_int, [_handle, _int]),
    "oriel_comm_node_rank": (c_int, [_handle, _int]),
    "oriel_comm_node_size": (c_int, [_handle, _int]),
    "oriel_comm_peer_kind": (c_int, [_handle, _int]),
    "oriel_comm_peer_reason": (_text, [_handle, _int]),
    "oriel_comm_allgather": (c_int, [_handle, _int, c_void_p, c_void_p, c_size_t]),
    "oriel_comm_barrier": (c_int, [_handle, _int]),
    "oriel_comm_connect": (c_int, [_handle, POINTER(c_int), _int]),
    "oriel_comm_device": (c_int, [_handle, POINTER(oriel_comm_dev)]),
    "oriel_comm_engine": (c_int, [_handle, c_void_p, c_size_t]),
    "oriel_comm_sync": (c_int, [_handle, c_void_p]),
    "oriel_alloc": (c_int, [_handle, c_size_t, _out]),
    "oriel_free": (c_int, [_handle, c_void_p]),
    "oriel_memory_keep": (c_int, [_handle, c_void_p, _out]),
    "oriel_memory_drop": (c_int, [_handle]),
    "oriel_copy": (c_int, [_handle, c_void_p, c_void_p, c_size_t]),
    "oriel_buffer_register": (c_int, [_handle, c_void_p, c_size_t, _out]),
    "oriel_buffer_exchange": (c_int, [_handle, _handle]),
    "oriel_buffer_mapped": (c_void_p, [_handle, _int]),
    "oriel_buffer_remote": (c_int, [_handle, _int, POINTER(oriel_remote)]),
    "oriel_buffer_source": (c_int, [_handle, POINTER(oriel_source)]),
    "oriel_buffer_release": (c_int, [_handle]),
    "oriel_window_create": (c_int, [_handle, POINTER(oriel_window_options), _out]),
    "oriel_window_destroy": (c_int, [_handle]),
    "oriel_window_buffer": (c_void_p, [_handle]),
    "oriel_window_mapped": (c_void_p, [_handle, _int]),
    "oriel_window_source": (c_int, [_handle, c_void_p, c_size_t, POINTER(oriel_source)]),
    "oriel_window_source_release": (c_int, [_handle, POINTER(oriel_source)]),
    "oriel_window_device": (c_int, [_handle, POINTER(oriel_window_dev)]),
    "oriel_window_status": (c_int, [_handle]),
    "oriel_window_reset_signals": (c_int, [_handle, c_void_p]),
    "oriel_window_put": (c_int, [*_transfer, c_void_p]),
    "oriel_window_get": (c_int, [*_transfer, c_void_p]),
    "oriel_window_put_signal": (c_int, [*_transfer, _int, _int, c_uint64, c_void_p]),
    "oriel_window_signal": (c_int, [*_window_word, c_void_p]),
    "oriel_window_wait_signal": (c_int, [*_window_word, c_void_p]),
    "oriel_window_wait_signal_timeout": (c_int, [*_window_word, c_double, c_void_p]),
    "oriel_window_barrier": (c_int, [_handle, _int, c_void_p]),
    "oriel_window_barrier_timeout": (c_int, [_handle, _int, c_double, c_void_p]),
    "oriel_window_device_address": (c_int, [_handle, _out]),
    "oriel_window_put_counter": (c_int, [*_transfer, _int, c_void_p]),
    "oriel_window_put_signal_counter": (
        c_int,
        [*_transfer, _int, _int, c_uint64, _int, c_void_p],
    ),
    "oriel_window_flush": (c_int, [_handle, _int, c_void_p]),
    "oriel_window_fetch_add": (c_int, [*_atomic, c_void_p, c_void_p]),
    "oriel_window_swap": (c_int, [*_atomic, c_void_p, c_void_p]),
    "oriel_window_compare_swap": (c_int, [*_atomic, c_uint64, c_void_p, c_void_p]),
    "oriel_window_atomic": (
        c_int,
        [_handle, _int, c_uint64, _int, _int, c_uint64, c_uint64, c_void_p, c_void_p],
    ),
    "oriel_window_wait_word": (c_int, [*_word, c_void_p]),
    "oriel_window_wait_word_timeout": (c_int, [*_word, c_double, c_void_p]),
    "oriel_window_read_word": (c_int, [_handle, c_uint64, _int, POINTER(c_uint64)]),
    "oriel_window_signal_all": (c_int, [_handle, _int, _int, c_uint64, c_void_p]),
    "oriel_window_reset_signal": (c_int, [_handle, _int, c_void_p]),
    "oriel_window_signal_advance": (c_int, [_handle, _int, _int, c_uint64, c_void_p]),
    "oriel_window_wait_counter": (c_int, [*_window_word, c_void_p]),
    "oriel_window_wait_counter_timeout": (c_int, [*_window_word, c_double, c_void_p]),
    "oriel_window_reset_counter": (c_int, [_handle, _int, _int, c_void_p]),
    "oriel_window_read_signal": (c_int, [_handle, _int, _int, POINTER(c_uint64)]),
    "oriel_window_read_counter": (c_int, [_handle, _int, _int, POINTER(c_uint64)]),
    "oriel_allgather": (c_int, [_handle, c_void_p, c_void_p, c_uint64, c_uint64, c_void_p]),
    "oriel_allgather_supported": (c_int, [_handle]),
    "oriel_allgather_create": (c_int, [_handle, _handle, POINTER(oriel_allgather_options), _out]),
    "oriel_allgather_create_buffer": (
        c_int,
        [_handle, _handle, c_uint64, c_uint64, POINTER(oriel_allgather_options), _out],
    ),
    "oriel_allgather_exec": (c_int, [_handle, c_void_p, c_uint64, c_uint64, c_void_p]),
    "oriel_allgather_status": (c_int, [_handle]),
    "oriel_allgather_destroy": (c_int, [_handle]),
    "oriel_allgather_explain": (c_int, [_handle, c_uint64, c_uint64, c_void_p, c_size_t]),
    "oriel_allreduce": (
        c_int,
        [_handle, c_void_p, c_void_p, c_uint64, c_int, c_int, c_void_p],
    ),
    "oriel_broadcast": (c_int, [_handle, c_void_p, c_uint64, c_uint64, c_int, c_void_p]),
    "oriel_reducescatter": (
        c_int,
        [_handle, c_void_p, c_void_p, c_uint64, c_int, c_int, c_void_p],
    ),
    "oriel_alltoallv_create": (c_int, [_handle, POINTER(oriel_alltoallv_options), _out]),
    "oriel_alltoallv_send_buffer": (c_void_p, [_handle]),
    "oriel_alltoallv_recv_buffer": (c_void_p, [_handle]),
    "oriel_alltoallv_slot": (c_void_p, [_handle, _int]),
    "oriel_alltoallv_exec": (c_int, [_handle, POINTER(oriel_alltoallv_args), c_void_p]),
    "oriel_alltoallv_status": (c_int, [_handle]),
    "oriel_alltoallv_explain": (c_int, [_handle, c_uint64, c_void_p, c_size_t]),
    "oriel_alltoallv_destroy": (c_int, [_handle]),
    "oriel_alltoallv_plan": (c_int, [_handle, c_uint64, POINTER(oriel_alltoallv_plan_info)]),
    "oriel_alltoallv_plan_agree": (c_int, [_handle]),
    "oriel_team_create": (c_int, [_handle, POINTER(oriel_team_options), _out]),
    "oriel_team_destroy": (c_int, [_handle]),
    "oriel_team_device_address": (c_int, [_handle, _out]),
    "oriel_team_status": (c_int, [_handle]),
}

# Exported functions that are not declared above, and why.
_FOR_KERNELS = "called by kernels that a C compiler compiled"
_FOR_FRONT_ENDS = "for front ends in C; Python makes sources, and waits for single words"
LEFT_OUT = {
    "oriel_window_get_bytes": _FOR_FRONT_ENDS,
    "oriel_window_get_strided": _FOR_FRONT_ENDS,
    "oriel_window_put_bytes": _FOR_FRONT_ENDS,
    "oriel_window_put_strided": _FOR_FRONT_ENDS,
    "oriel_window_wait_any_word": _FOR_FRONT_ENDS,
    "oriel_window_wait_any_word_timeout": _FOR_FRONT_ENDS,
    "oriel_team_device": "for kernels that a C compiler compiled; others take the address",
    "oriel_cpu_drive": _FOR_KERNELS,
    "oriel_cpu_group_agree": _FOR_KERNELS,
    "oriel_cpu_now_ns": _FOR_KERNELS,
    "oriel_cpu_report": _FOR_KERNELS,
    "oriel_cpu_spin_end": _FOR_KERNELS,
    "oriel_cpu_spin_slow": _FOR_KERNELS,
    "oriel_cpu_this_thread": _FOR_KERNELS,
    "oriel_cpu_wake": _FOR_KERNELS,
    "oriel_cpu_yield": _FOR_KERNELS,
    "oriel_kernels_add": "images of kernels come from nvcc and a C program",
    "oriel_kernels_forget": "called by the code that nvcc generates",
    "oriel_kernels_note": "called by the code that nvcc generates",
    "oriel_launch": "launches kernels that a C compiler compiled; Triton launches its own",
}


# ---- the library ---------------------------------------------------------------------------------


class Library:
    """liboriel, loaded: every function of FUNCTIONS is an attribute."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._cdll = ctypes.CDLL(path)
        for name, (result, arguments) in FUNCTIONS.items():
            function: Any = getattr(self._cdll, name, None)
            if function is None:
                function = self._missing(name)
            else:
                function.restype = result
                function.argtypes = arguments
            setattr(self, name, function)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"_c.py does not declare {name}")

    def _missing(self, name: str) -> Callable[..., NoReturn]:
        def missing(*_arguments: Any) -> NoReturn:
            raise Error(
                STATUSES["EUNSUPPORTED"],
                "ORIEL_EUNSUPPORTED",
                f"{self.path} has no {name}: it is older than this package; install a newer Oriel",
            )

        missing.missing = True  # type: ignore[attr-defined]
        return missing

    def quick(self, name: str) -> Callable[..., int]:
        """The function without declared arguments: a call costs a third of the other.

        Arguments of 32 bits are Python ints; all others are ctypes objects.  ctypes cuts an int
        that is too long, and raises ArgumentError for other types.
        """
        function = self._cdll[name]
        function.restype = c_int
        return function

    def has(self, name: str) -> bool:
        """Does this library have the function?"""
        return not hasattr(getattr(self, name), "missing")


def _load() -> Library:
    path = library_path()
    try:
        library = Library(path)
    except OSError as error:
        raise ImportError(f"cannot load {path}: {error}") from error
    major, minor, patch = VERSION
    if library.oriel_header_check(major * 10000 + minor * 100 + patch):
        raise ImportError(library.oriel_last_error().decode())
    return library


lib = _load()


def error(status: int) -> Error:
    """The exception for a status that a call on this thread has just returned."""
    cause = lib.oriel_last_error().decode(errors="replace")
    name = lib.oriel_status_name(status).decode()
    return Error(status, name, cause or lib.oriel_status_text(status).decode())


def check(status: int) -> int:
    """Returns a value that is not negative; raises for a status."""
    if status < 0:
        raise error(status)
    return status


def fail(status: str, cause: str, rank: int | None = None) -> Error:
    """An exception of this package's own, with a status of the library by its short name."""
    return Error(STATUSES[status], "ORIEL_" + status, cause, rank)
