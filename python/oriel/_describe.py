# SPDX-License-Identifier: BSD-3-Clause
"""Memory of the user as address, size, device and owner.

Accepted are numpy arrays, torch tensors, and objects with __cuda_array_interface__, the buffer
protocol or DLPack.  Nothing is copied.  The owner is an object that keeps the memory alive: whoever
uses the address holds the owner as long as it does.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any, NamedTuple


class Region(NamedTuple):
    """A contiguous piece of memory of this process."""

    address: int
    nbytes: int
    device: str  # "cpu", or "cuda:N"
    owner: Any  # keeps the memory alive
    writable: bool
    itemsize: int


def describe(obj: Any, what: str = "buffer") -> Region:
    """The memory of `obj`.  `what` names the argument in messages.

    Raises TypeError if the object has no memory that can be used, and ValueError if its memory is
    not contiguous.
    """
    region = getattr(obj, "_oriel_region", None)
    if region is not None:
        return region()
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(obj, torch.Tensor):
        return _of_tensor(torch, obj, what)
    if hasattr(obj, "__cuda_array_interface__"):
        return _of_interface(obj, obj.__cuda_array_interface__, what, cuda=True)
    if hasattr(obj, "__array_interface__"):
        return _of_interface(obj, obj.__array_interface__, what, cuda=False)
    try:
        view = memoryview(obj)
    except TypeError:
        view = None
    if view is not None:
        return _of_buffer(view, what)
    if hasattr(obj, "__dlpack__"):
        return _of_dlpack(obj, what)
    raise TypeError(
        f"{what}: {type(obj).__name__} has no memory that Oriel can use: pass a numpy array, a "
        "torch tensor, or an object with DLPack, __cuda_array_interface__ or the buffer protocol"
    )


def _not_contiguous(what: str, hint: str) -> ValueError:
    return ValueError(f"{what}: the memory is not contiguous (C order): {hint}")


def _of_tensor(torch: Any, tensor: Any, what: str) -> Region:
    if tensor.layout != torch.strided:
        raise TypeError(f"{what}: the tensor is {tensor.layout}, not dense: call to_dense()")
    if tensor.device.type not in ("cpu", "cuda"):
        raise TypeError(f"{what}: the tensor is on {tensor.device}: move it to the CPU or a GPU")
    if not tensor.is_contiguous():
        raise _not_contiguous(what, "call contiguous() and pass the result")
    device = "cpu" if tensor.device.type == "cpu" else f"cuda:{tensor.device.index or 0}"
    itemsize = tensor.element_size()
    return Region(tensor.data_ptr(), tensor.numel() * itemsize, device, tensor, True, itemsize)


def _of_interface(obj: Any, interface: dict, what: str, cuda: bool) -> Region:
    """An array interface: numpy's, or that of CUDA arrays."""
    typestr: str = interface["typestr"]
    if typestr[1] == "O":
        raise TypeError(
            f"{what}: elements of dtype object are pointers of this process: use a plain dtype"
        )
    itemsize = int(typestr[2:]) * (4 if typestr[1] == "U" else 1)
    count, expected = itemsize, []
    for extent in reversed(interface["shape"]):
        expected.append(count)
        count *= extent
    strides = interface.get("strides")
    if strides is not None and count:
        for extent, stride, dense in zip(interface["shape"], strides, reversed(expected)):
            if extent > 1 and stride != dense:
                raise _not_contiguous(what, "pass numpy.ascontiguousarray(...) of it")
    address, readonly = interface["data"]
    device = f"cuda:{_cuda_ordinal(obj)}" if cuda else "cpu"
    return Region(address or 0, count, device, obj, not readonly, itemsize)


def _cuda_ordinal(obj: Any) -> int:
    """The GPU of an object with __cuda_array_interface__, as DLPack or the object itself says."""
    if hasattr(obj, "__dlpack_device__"):
        return int(obj.__dlpack_device__()[1])
    device = getattr(obj, "device", None)
    return int(getattr(device, "id", getattr(device, "index", 0)) or 0)


class _PyBuffer(ctypes.Structure):
    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    ]


def _of_buffer(view: memoryview, what: str) -> Region:
    """The buffer protocol.  The view is the owner: while it exists, a bytearray cannot move."""
    if "O" in view.format:
        raise TypeError(f"{what}: elements are pointers of this process: use plain data")
    if not view.c_contiguous:
        raise _not_contiguous(what, "copy it with bytes(...) or bytearray(...)")
    raw = _PyBuffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(view), ctypes.byref(raw), 0)
    address = raw.buf or 0
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(raw))
    return Region(address, view.nbytes, "cpu", view, not view.readonly, view.itemsize or 1)


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_DLPACK_HOST = {1, 3}  # kDLCPU, kDLCUDAHost
_DLPACK_CUDA = {2, 13}  # kDLCUDA, kDLCUDAManaged


def _of_dlpack(obj: Any, what: str) -> Region:
    """DLPack.  The capsule is part of the owner: it is never consumed, so it frees itself."""
    capsule = obj.__dlpack__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype = ctypes.c_void_p
    pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    tensor = _DLTensor.from_address(pointer(capsule, b"dltensor"))
    if tensor.device_type not in _DLPACK_HOST | _DLPACK_CUDA:
        raise TypeError(f"{what}: its memory is neither the host's nor a CUDA GPU's")
    bits = tensor.bits * tensor.lanes
    if bits % 8:
        raise TypeError(f"{what}: elements of {bits} bits are not whole bytes")
    itemsize = bits // 8
    count = itemsize
    for axis in reversed(range(tensor.ndim)):
        if tensor.strides and tensor.shape[axis] > 1:
            if tensor.strides[axis] * itemsize != count:
                raise _not_contiguous(what, "make a contiguous copy and pass that")
        count *= tensor.shape[axis]
    on_host = tensor.device_type in _DLPACK_HOST
    device = "cpu" if on_host else f"cuda:{tensor.device_id}"
    address = (tensor.data or 0) + tensor.byte_offset
    return Region(address, count, device, (obj, capsule), True, itemsize)
