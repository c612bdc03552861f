# SPDX-License-Identifier: BSD-3-Clause
"""What a program of the Python package does, once: for front_test.py, in which calls of the
library below fail.

Prints "unharmed" at its end.  An exception of the package is printed by the interpreter.
"""

import numpy

import oriel


def main() -> None:
    """One rank."""
    with oriel.Comm.from_env() as comm:
        right = (comm.rank + 1) % comm.size
        left = (comm.rank - 1) % comm.size
        with oriel.Window(comm, bytes=4096, signals=4) as window:
            window.put_signal(right, numpy.full(1000, comm.rank + 1, "uint8"), signal=1)
            window.wait_signal(left, 1)
            assert (window.array(dtype="uint8")[:1000] == left + 1).all(), "bytes of the put"
            window.barrier()
        gathered = numpy.zeros(comm.size * 10, "int32")
        comm.all_gather(numpy.full(10, comm.rank, "int32"), gathered)
        assert (gathered.reshape(comm.size, 10).T == numpy.arange(comm.size)).all(), "the gather"
        assert comm.allgather(bytes([comm.rank])) == [bytes([r]) for r in range(comm.size)]
        target = oriel.empty((comm.size, 100), "int64", comm)
        with oriel.AllGather(comm, target) as request:
            request.exec(numpy.full(100, comm.rank, "int64"))
        assert (target.T == numpy.arange(comm.size)).all(), "the gather of a request"
        with oriel.Team(comm):
            comm.barrier()
        comm.barrier()
    print("unharmed", flush=True)


if __name__ == "__main__":
    main()
