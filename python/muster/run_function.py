"""horovod.run(): runs a function on many ranks, from a script or a notebook.

    def train(rate):
        hvd.init()
        ...
        return loss

    losses = horovod.run(train, args=(0.1,), np=4)                   # on this host
    losses = horovod.run(train, args=(0.1,), np=4, hosts="n1:2,n2:2")

hvdrun starts the ranks. run() sends the function, its arguments and sys.path to the standard input of all ranks. The
ranks send the results by their standard output. So run() works in the same way on this host and on others, and it
writes no file. Functions and results are pickled. run() uses cloudpickle if it is installed, because cloudpickle can
also pickle functions of scripts and notebooks.
"""

import base64
import os
import pickle
import re
import secrets
import shutil
import subprocess
import sys
import threading

_WORKER = "muster.run_worker"
_NO_ELASTIC = "run() does not support elastic jobs yet: omit this argument"
_NO_MPI = "hvdrun starts the ranks itself, without mpirun: omit this argument"


def find_hvdrun():
    """Returns the path of hvdrun: MUSTER_HVDRUN if it is set. Otherwise the hvdrun of this package's installation, or
    the first one on the PATH. FileNotFoundError: hvdrun was not found."""
    here = os.path.dirname(os.path.abspath(__file__))
    root = os.path.dirname(os.path.dirname(here))
    beside = [os.path.join(root, "bin", "hvdrun"), os.path.join(root, "build", "release", "bin", "hvdrun")]
    named = os.environ.get("MUSTER_HVDRUN")
    for path in [named] if named else beside + [shutil.which("hvdrun")]:
        if path is not None and os.access(path, os.X_OK):
            return path
    raise FileNotFoundError(f"hvdrun was not found{f' as {named}' if named else ''}: add its folder to the PATH, or "
                            "set MUSTER_HVDRUN to its path")


def run(func, args=(), kwargs=None, num_proc=None, min_num_proc=None, max_num_proc=None, slots=None, reset_limit=None,
        cooldown_range=None, hosts=None, hostfile=None, host_discovery_script=None, start_timeout=None, ssh_port=None,
        ssh_identity_file=None, disable_cache=None, output_filename=None, verbose=None, use_gloo=None, use_mpi=None,
        mpi_args=None, network_interface=None, network_interfaces=None, executable=None,
        prefix_output_with_timestamp=False, np=None, min_np=None, max_np=None):
    """Calls func(*args, **kwargs) on `np` (or `num_proc`) ranks. Returns the list of their results, by rank. hvdrun
    shows the output of the ranks.

    hosts, hostfile, ssh_*, start_timeout, network_interface(s), output_filename, verbose: as hvdrun's options.
    executable: the Python of the ranks; by default this one. disable_cache, use_gloo: accepted without effect.
    ValueError: an option is not supported here, or the function cannot be sent. RuntimeError: a rank failed or could
    not be started. The error contains the rank's traceback if the function raised an exception."""
    del disable_cache, use_gloo  # hvdrun always checks the hosts, and always starts ranks as with Gloo
    for value, option, why in ((min_num_proc or min_np, "min_np", _NO_ELASTIC), (slots, "slots", _NO_ELASTIC),
                               (max_num_proc or max_np, "max_np", _NO_ELASTIC), (use_mpi, "use_mpi", _NO_MPI),
                               (reset_limit, "reset_limit", _NO_ELASTIC), (mpi_args, "mpi_args", _NO_MPI),
                               (cooldown_range, "cooldown_range", _NO_ELASTIC),
                               (host_discovery_script, "host_discovery_script", _NO_ELASTIC)):
        if value:
            raise ValueError(f"run({option}=...): {why}")
    ranks = num_proc or np or 1
    command = [find_hvdrun(), "-np", str(ranks), "--stdin", "all", "--verbose" if verbose else "--quiet"]
    for value, option in ((hosts, "--hosts"), (hostfile, "--hostfile"), (start_timeout, "--start-timeout"),
                          (ssh_port, "--ssh-port"), (ssh_identity_file, "--ssh-identity-file"),
                          (output_filename, "--output-filename"),
                          (network_interface or network_interfaces, "--network-interfaces")):
        if value:
            command += [option, ",".join(value) if isinstance(value, (list, tuple)) else str(value)]
    if prefix_output_with_timestamp:
        command.append("--prefix-output-with-timestamp")
    mark = secrets.token_hex(16)
    command += ["--", executable or sys.executable, "-u", "-m", _WORKER, mark]
    return _Call(command, mark, ranks).results(_pickled(func, args, kwargs or {}))


def _pickled(func, args, kwargs):
    try:
        from cloudpickle import dumps
    except ImportError:
        if getattr(func, "__module__", None) == "__main__":
            raise ValueError("run() can send a function of a script or a notebook only with cloudpickle: install "
                             "cloudpickle, or move the function to a module") from None
        from pickle import dumps
    try:
        return pickle.dumps({"path": sys.path, "call": dumps((func, args, kwargs))})
    except (TypeError, AttributeError, pickle.PicklingError) as problem:
        raise ValueError(f"run() cannot send the function or its arguments: {problem}") from problem


class _Call:
    """One run of hvdrun, and the results that its ranks send."""

    def __init__(self, command, mark, ranks):
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._pattern = re.compile(rb"%s (\d+) ([a-z]+) ([A-Za-z0-9+/=]*)$" % mark.encode())
        self._pieces = [[] for _ in range(ranks)]
        # rank -> (True, its result) if it returned, or (False, its traceback) if it raised.
        self._done = {}

    def results(self, message):
        sender = threading.Thread(target=self._send, args=(message,), daemon=True)
        sender.start()
        try:
            for line in self._process.stdout:
                self._handle_line(line)
            code = self._process.wait()
        finally:
            if self._process.poll() is None:
                self._process.terminate()
                self._process.wait()
            sender.join()
            self._process.stdout.close()
        # Report the first failure that arrived, because it may have caused the others.
        for rank, (is_result, text) in self._done.items():
            if not is_result:
                raise RuntimeError(f"run(): rank {rank} of {len(self._pieces)} raised\n{text}")
        missing = [rank for rank in range(len(self._pieces)) if rank not in self._done]
        if code != 0 or missing:
            raise RuntimeError(f"run(): hvdrun ended with exit code {code}" +
                               (f", ranks {missing} returned no result" if missing else "") +
                               "; see its messages above")
        return [self._done[rank][1] for rank in range(len(self._pieces))]

    def _send(self, message):
        try:
            with self._process.stdin as pipe:
                pipe.write(message)
        except BrokenPipeError:
            pass  # hvdrun has ended, and results() checks its exit code

    def _handle_line(self, line):
        """Handles one line of hvdrun's output: keeps a piece of a result, and shows other text to the user."""
        found = self._pattern.search(line.rstrip(b"\n"))
        shown = line if found is None else line[:found.start()] + b"\n"
        # Show the text before the mark: output that a rank printed without a newline. Skip the line if it is only
        # hvdrun's prefix.
        if found is None or not shown.endswith(b"<stdout>:\n"):
            sys.stdout.write(shown.decode(errors="replace"))
            sys.stdout.flush()
        if found is None:
            return
        rank, kind = int(found[1]), found[2]
        self._pieces[rank].append(base64.b64decode(found[3]))
        if kind == b"returned":
            self._done[rank] = (True, pickle.loads(b"".join(self._pieces[rank])))
        elif kind == b"raised":
            self._done[rank] = (False, b"".join(self._pieces[rank]).decode(errors="replace"))
