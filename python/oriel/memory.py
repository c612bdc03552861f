# SPDX-License-Identifier: BSD-3-Clause
"""Memory that peers can map, as arrays and tensors.

A Memory is one allocation of oriel_alloc.  Arrays and tensors over it hold it, so it is freed after
the last of them is gone, also if the comm ends earlier.  The end of a Memory never waits: the comm
frees it at its next call that may wait.
"""

from __future__ import annotations

import ctypes
import math
import operator
import sys
from typing import TYPE_CHECKING, Any

from ._c import check, fail, lib
from ._describe import Region

if TYPE_CHECKING:
    from .comm import Comm


class Memory:
    """An allocation of the comm's device that peers can map.

    It has the buffer's address and size.  numpy() and tensor() make arrays over it without a copy.
    """

    def __init__(self, comm: Comm, nbytes: int) -> None:
        self._handle: int | None = None
        address = ctypes.c_void_p()
        kept = ctypes.c_void_p()
        check(lib.oriel_alloc(comm._live("empty"), nbytes, ctypes.byref(address)))
        status = lib.oriel_memory_keep(comm._handle, address, ctypes.byref(kept))
        if status:
            lib.oriel_free(comm._handle, address)
            check(status)
        self.address: int = address.value or 0
        self.nbytes = nbytes
        self.device: str = comm.device
        self._handle = kept.value
        self._garbage = comm._garbage

    def __del__(self) -> None:
        # oriel_memory_drop may wait for operations; a finaliser must not.
        if self._handle:
            self._garbage.add(self._handle)
            self._handle = None

    def __repr__(self) -> str:
        return f"<oriel.Memory of {self.nbytes} bytes on {self.device}>"

    def _oriel_region(self) -> Region:
        return Region(self.address, self.nbytes, self.device, self, True, 1)

    def numpy(self, dtype: Any = "uint8", shape: Any = None, offset: int = 0) -> Any:
        """A numpy array over the memory (CPU only)."""
        return array_over(self._oriel_region(), dtype, shape, offset)

    def tensor(self, dtype: Any = None, shape: Any = None, offset: int = 0) -> Any:
        """A torch tensor over the memory."""
        return tensor_over(self._oriel_region(), dtype, shape, offset)


class Garbage:
    """Allocations whose last array is gone.  The comm frees them at its next call that may wait.

    After the comm has ended, an allocation is freed at once, because that does not wait any more.
    """

    def __init__(self) -> None:
        self._handles: list[int] = []
        self._ended = False
        self._drop = lib.oriel_memory_drop  # finalisers also run when modules are gone

    def add(self, handle: int) -> None:
        """Called by finalisers, on any thread, at any time."""
        self._handles.append(handle)
        if self._ended:
            self.free()

    def free(self) -> None:
        """Frees what can be freed; what is still in use is tried again later."""
        left = []
        while True:
            try:
                handle = self._handles.pop()  # another thread may do the same
            except IndexError:
                break
            if self._drop(handle):
                left.append(handle)
        self._handles += left

    def end(self) -> None:
        """The comm has ended."""
        self._ended = True
        self.free()


# ---- arrays and tensors over a region ------------------------------------------------------------


def _numpy() -> Any:
    try:
        import numpy
    except ImportError as error:
        raise TypeError('numpy is not installed: pip install "oriel[numpy]"') from error
    return numpy


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise TypeError("torch is not installed: pip install torch") from error
    return torch


def _extent(region: Region, itemsize: int, shape: Any, offset: int) -> tuple[tuple[int, ...], int]:
    """The shape (all that fits if None) and its bytes.  Raises ValueError if it does not fit."""
    if offset < 0 or offset > region.nbytes:
        raise ValueError(f"offset {offset} is not within the memory of {region.nbytes} bytes")
    if shape is None:
        shape = ((region.nbytes - offset) // itemsize,)
    shape = shape_of(shape)
    nbytes = math.prod(shape) * itemsize
    if nbytes > region.nbytes - offset:
        raise ValueError(
            f"shape {shape} needs {nbytes} bytes at offset {offset}, but the memory has "
            f"{region.nbytes} bytes"
        )
    return shape, nbytes


def shape_of(shape: Any) -> tuple[int, ...]:
    """A shape as a tuple: an int is one dimension."""
    try:
        shape = (operator.index(shape),)
    except TypeError:
        shape = tuple(operator.index(extent) for extent in shape)
    if any(extent < 0 for extent in shape):
        raise ValueError(f"shape {shape} has a negative extent")
    return shape


def _exporter(region: Region, offset: int, nbytes: int) -> Any:
    """An object with the buffer protocol over the bytes, which holds the owner."""
    block = (ctypes.c_ubyte * nbytes).from_address(region.address + offset)
    block.owner = region.owner
    return block


class _CudaArray:
    """Bytes of a GPU for torch.as_tensor, which holds this object."""

    def __init__(self, region: Region, offset: int, nbytes: int) -> None:
        self.owner = region.owner
        self.__cuda_array_interface__ = {
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (region.address + offset, False),
            "version": 3,
        }


def array_over(region: Region, dtype: Any, shape: Any, offset: int = 0) -> Any:
    """A numpy array over the region, without a copy; it holds the owner."""
    numpy = _numpy()
    if region.device != "cpu":
        raise TypeError(f"numpy cannot use memory of {region.device}: use a torch tensor")
    dtype = numpy.dtype(dtype)
    if dtype.hasobject:
        raise TypeError("dtype object: its elements are pointers of this process")
    shape, nbytes = _extent(region, dtype.itemsize, shape, offset)
    if not nbytes:
        return numpy.empty(shape, dtype)
    return numpy.frombuffer(_exporter(region, offset, nbytes), dtype).reshape(shape)


def tensor_over(region: Region, dtype: Any, shape: Any, offset: int = 0) -> Any:
    """A torch tensor over the region, without a copy; it holds the owner."""
    torch = _torch()
    dtype = torch_dtype(torch, dtype)
    shape, nbytes = _extent(region, dtype.itemsize, shape, offset)
    if not nbytes:
        return torch.empty(shape, dtype=dtype, device=region.device)
    if region.device == "cpu":
        flat = torch.frombuffer(_exporter(region, offset, nbytes), dtype=torch.uint8)
    else:
        flat = torch.as_tensor(_CudaArray(region, offset, nbytes), device=region.device)
    return flat.view(dtype).view(shape)


def torch_dtype(torch: Any, dtype: Any) -> Any:
    """A torch dtype from one of torch's, a name, or one of numpy's; None is uint8."""
    if isinstance(dtype, torch.dtype):
        return dtype
    name = "uint8" if dtype is None else dtype if isinstance(dtype, str) else None
    if name is None:
        name = _numpy().dtype(dtype).name
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise TypeError(f"torch has no dtype {name}")
    return found


def _is_torch_dtype(dtype: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(dtype, torch.dtype)


def empty(shape: Any, dtype: Any = "float32", comm: Comm | None = None, like: Any = None) -> Any:
    """A new array or tensor in memory that peers can map, on the comm's device.

    like: "numpy", "torch", or None.  None gives a tensor if dtype is one of torch's or the comm is
    on a GPU, else a numpy array.  The memory is zero at first.  It is freed after the last array or
    tensor over it is gone, also if the comm is closed before.
    """
    if comm is None:
        raise TypeError("empty: pass comm=, the comm whose peers shall map the memory")
    if like not in (None, "numpy", "torch"):
        raise ValueError(f'like={like!r}: must be "numpy", "torch" or None')
    if like is None:
        tensor = _is_torch_dtype(dtype) or comm.device != "cpu"
    else:
        tensor = like == "torch"
    itemsize = torch_dtype(_torch(), dtype).itemsize if tensor else _numpy().dtype(dtype).itemsize
    shape = shape_of(shape)
    nbytes = math.prod(shape) * itemsize
    if not nbytes:
        raise ValueError(f"empty: shape {shape} has no elements; a window needs no memory then")
    if not tensor and comm.device != "cpu":
        raise TypeError(f'empty: the comm is on {comm.device}: use like="torch"')
    comm._garbage.free()
    memory = Memory(comm, nbytes)
    return memory.tensor(dtype, shape) if tensor else memory.numpy(dtype, shape)


def region_for(comm: Comm, obj: Any, what: str, write: bool = False) -> Region:
    """The memory of `obj` if the comm's device can use it; else an error that says what to do."""
    from ._describe import describe

    region = describe(obj, what)
    if region.device != comm.device:
        hint = 'device="cuda"' if region.device != "cpu" else 'device="cpu"'
        raise ValueError(
            f"{what} is on {region.device}, but the comm is on {comm.device}: move it there, or "
            f"make the comm with {hint}"
        )
    if write and not region.writable:
        raise ValueError(f"{what} is read-only: pass memory that can be written")
    if region.nbytes and not region.address:
        raise fail("EINVAL", f"{what} has no memory behind it (a tensor whose storage was freed?)")
    return region
