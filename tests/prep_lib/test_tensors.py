import subprocess
import sys

import numpy as np
import pytest
import torch

from prep_lib.errors import BadParameter, NoSpace
from prep_lib.tensors import share, to_array, to_tensor


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "int32", "int64", "float32", "float64"])
def test_to_tensor_shares_memory_and_keeps_the_dtype(dtype):
    array = np.zeros(3, dtype)
    tensor = to_tensor(array)
    array[1] = 1
    assert tensor.tolist() == [0, 1, 0]
    assert str(tensor.dtype) == f"torch.{dtype}"


@pytest.mark.parametrize(("dtype", "largest"), [("uint16", 65535), ("uint32", 2**32 - 1), (">u2", 65535)])
def test_unsigned_ids_become_int64_without_wrapping(dtype, largest):
    for make in (to_tensor, share):
        tensor = make(np.array([0, largest], dtype))
        assert tensor.dtype == torch.int64
        assert tensor.tolist() == [0, largest]


def test_a_read_only_array_is_copied_so_that_a_write_cannot_reach_it():
    array = np.arange(3)
    array.flags.writeable = False
    to_tensor(array)[0] = 9
    assert array.tolist() == [0, 1, 2]


@pytest.mark.parametrize("array", [np.arange(4)[::-1], np.arange(4, dtype=">i4"), np.arange(4)[::2]])
def test_odd_layouts_keep_their_values(array):
    assert to_tensor(array).tolist() == array.tolist()
    assert share(array).tolist() == array.tolist()


def test_to_array_takes_tensors_arrays_and_lists():
    tensor = torch.tensor([1.0, 2.0], requires_grad=True)
    assert to_array(tensor).tolist() == [1.0, 2.0]
    array = np.arange(3)
    assert to_array(array) is array
    assert to_array([True, False]).dtype == bool


@pytest.mark.parametrize("values", [torch.zeros(2, dtype=torch.bfloat16), [[1], [2, 3]]])
def test_to_array_refuses_what_numpy_cannot_hold(values):
    with pytest.raises(BadParameter, match=r"tensors: .* cannot become an array"):
        to_array(values)


@pytest.mark.parametrize("writeable", [True, False])
@pytest.mark.parametrize("size", [0, 5])
def test_share_copies_into_shared_memory_and_leaves_the_array_alone(writeable, size):
    array = np.arange(size, dtype=np.int32)
    array.flags.writeable = writeable
    tensor = share(array)
    assert tensor.is_shared()
    assert tensor.dtype == torch.int32
    tensor += 1
    assert array.tolist() == list(range(size))


def test_too_little_shared_memory_says_what_to_do(monkeypatch):
    def full(self):
        raise RuntimeError("unable to allocate shared memory(shm): No space left on device (28)")

    monkeypatch.setattr(torch.Tensor, "share_memory_", full)
    with pytest.raises(NoSpace, match=r"24 bytes do not fit the shared memory .* share_memory=False"):
        share(np.arange(3))


def test_importing_the_module_does_not_import_torch():
    code = "import sys, prep_lib.tensors; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
