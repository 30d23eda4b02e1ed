"""A rank of horovod.run(): reads a function from standard input, calls it, and reports the result.

    python -m muster.run_worker MARK

The report goes to standard output in lines of the form `MARK RANK KIND BASE64`. Any number of lines have the kind
"more". The last line is "returned" with the end of the pickled result, or "raised" with the end of a traceback.
muster/run_function.py reads the lines.
"""

import base64
import os
import pickle
import sys
import traceback

_PIECE_BYTES = 48 * 1024


def _dumps(result):
    try:
        from cloudpickle import dumps
    except ImportError:
        from pickle import dumps
    return dumps(result)


def _call(message):
    """Calls the received function and returns its result."""
    received = pickle.loads(message)
    sys.path += [folder for folder in received["path"] if folder not in sys.path]
    func, args, kwargs = pickle.loads(received["call"])
    return func(*args, **kwargs)


def _report(mark, kind, data):
    rank = os.environ["MUSTER_RANK"]
    ends = list(range(_PIECE_BYTES, len(data), _PIECE_BYTES)) + [len(data)]
    lines = [f"{mark} {rank} {kind if end == len(data) else 'more'} "
             f"{base64.b64encode(data[begin:end]).decode()}\n" for begin, end in zip([0] + ends, ends)]
    sys.stdout.writelines(lines)
    sys.stdout.flush()


def main():
    mark = sys.argv[1]
    message = sys.stdin.buffer.read()
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    try:
        result = _dumps(_call(message))
    except Exception:
        _report(mark, "raised", traceback.format_exc().encode())
        return 1
    _report(mark, "returned", result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
