# Writes numpy_state.npz, as a user's numpy writes it; or, with a file of kernbench's, prints each of
# its entries as numpy reads it: name, type, shape, elements.
#
#   python3 test/golden/numpy_state.py                 writes test/golden/numpy_state.npz
#   python3 test/golden/numpy_state.py FILE.npz        prints
import sys
import numpy

if len(sys.argv) > 1:
    with numpy.load(sys.argv[1]) as state:
        for name in state.files:
            array = state[name]
            shape = "x".join(str(size) for size in array.shape) or "scalar"
            print(name, array.dtype, shape, *(f"{x:.17g}" for x in array.flatten().tolist()))
else:
    numpy.savez("test/golden/numpy_state.npz",
                **{"fc.weight": numpy.arange(6, dtype=numpy.float32).reshape(2, 3) / 8,
                   "fc.bias": numpy.array([1.5, -2.0, 65504.0], dtype=numpy.float16),
                   "steps": numpy.array([7], dtype=numpy.int64),
                   "lr": numpy.float64(1e-3)})
