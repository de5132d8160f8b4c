"""Torch in and out: arrays become tensors, tensors become arrays, and arrays move to shared memory.

    array ──to_tensor──▶ tensor        no copy where torch may write; uint16 and uint32 become int64
    tensor ──to_array──▶ array         no copy; lists are taken too
    array ──share──▶ tensor            one copy, into memory that worker processes see

Torch is imported inside the functions: importing this module costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from prep_lib.errors import BadParameter, NoSpace

if TYPE_CHECKING:
    from torch import Tensor

#: Torch has these types but hardly an operation for them, not even an embedding look-up.
_WIDER = {np.dtype(np.uint16): np.int64, np.dtype(np.uint32): np.int64}


def to_tensor(array: np.ndarray) -> Tensor:
    """Return the array as a tensor.

    Parameters
    ----------
    array : ndarray
        Shares its memory with the tensor unless torch could not use or must not write it: uint16 and uint32 (become
        int64), read-only arrays, foreign byte order and negative strides are copied.

    Returns
    -------
    Tensor
        Of the same shape.

    Examples
    --------
    >>> to_tensor(np.array([1, 2], dtype=np.uint16))
    tensor([1, 2])
    """
    import torch

    return torch.from_numpy(_usable(np.asarray(array)))


def _usable(array: np.ndarray) -> np.ndarray:
    dtype = _WIDER.get(array.dtype.newbyteorder("="), array.dtype.newbyteorder("="))
    as_is = array.dtype == dtype and array.flags.writeable and all(stride >= 0 for stride in array.strides)
    return array if as_is else np.array(array, dtype=dtype, order="C", subok=False)


def to_array(values: Any) -> np.ndarray:
    """Return a tensor, a list or an array as an array, without a copy where that is possible.

    Parameters
    ----------
    values : Tensor, array or list of numbers
        A tensor on a device is fetched; its gradient is left behind.

    Raises
    ------
    BadParameter
        If NumPy has no such type (bfloat16) or the list is not rectangular.

    Examples
    --------
    >>> to_array([1, 2, 3])
    array([1, 2, 3])
    """
    try:
        if hasattr(values, "detach"):
            return values.detach().cpu().numpy()
        return np.asarray(values)
    except (TypeError, ValueError) as error:
        raise BadParameter(f"tensors: {type(values).__name__} cannot become an array: {error}") from None


def share(array: np.ndarray) -> Tensor:
    """Copy an array into shared memory, once, and return it as a tensor.

    Parameters
    ----------
    array : ndarray
        May be a memory map, read-only or not; it is left as it is.

    Returns
    -------
    Tensor
        Of the same shape; worker processes that receive it, or a view of it, see the same memory.

    Raises
    ------
    NoSpace
        If the machine's shared memory (often 64 MB in a container) is too small.

    Examples
    --------
    >>> share(np.arange(3)).is_shared()
    True
    """
    import torch

    try:
        if array.flags.writeable and array.dtype not in _WIDER:
            return to_tensor(array).share_memory_()
        dtype = torch.from_numpy(np.empty(0, _WIDER.get(array.dtype, array.dtype.newbyteorder("=")))).dtype
        shared = torch.empty(array.shape, dtype=dtype).share_memory_()
    except RuntimeError as error:
        raise NoSpace(
            f"tensors: {array.nbytes:,} bytes do not fit the shared memory of this machine ({error}); "
            "enlarge /dev/shm or load with share_memory=False"
        ) from error
    shared.numpy()[...] = array
    return shared
