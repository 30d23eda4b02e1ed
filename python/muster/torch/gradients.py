"""Reduces the gradients of an optimizer, each as soon as the backward pass has accumulated it."""

import contextlib
import os
import weakref

import torch

from muster import world
from muster.engine import Average
from muster.exceptions import HorovodInternalError, RanksDifferError
from muster.torch import asynchronous, buckets
from muster.torch.compression import Compression, compress
from muster.torch.repeated import Repeated

_TOO_MANY = ("backward() was called again for '{}' after its gradient was submitted for reduction: call step() before, "
             "or set backward_passes_per_step to the number of backward passes of a step")
_HAS_GRAPH = "the gradient of '{}' has a graph: with DistributedOptimizer, call backward() without create_graph=True"


# Gradients are submitted when this many bytes are ready, and by synchronize(). Every submission wakes a thread of
# libmuster. If each rank has one core, that thread interrupts the backward pass.
_HELD_BYTES = 1 << 20


class Gradients:
    """Reduces the gradients of the parameters in `names`. If `is_sent` is False, it only counts backward passes.

    States of a parameter: first it waits for backward passes. A parameter without a group or bucket is then held until
    _HELD_BYTES are ready, and submitted. A parameter with a group or bucket is submitted when all parameters of the
    group or bucket are complete. synchronize() waits for the result, and the parameter waits for backward passes again.
    Buckets (buckets.py) are made at the end of the first synchronize() of a world, which all ranks reach together, with
    `has_views`. They hold dense gradients of the CPU that are not compressed.
    Threads: one thread at a time may call it (backward passes, then the optimizer)."""

    def __init__(self, names, groups, compression, passes, op, predivide_factor, sparse_as_dense, process_set,
                 is_sent, has_views=False):
        self.compression = compression
        self.process_set = process_set
        self._names = names
        self._groups = {parameter: group for group in groups for parameter in group}
        self._passes = passes
        self._scales = {"op": op}
        if op == Average and predivide_factor != 1.0:
            self._scales.update(prescale_factor=1.0 / predivide_factor, postscale_factor=predivide_factor)
        self._sparse_as_dense = sparse_as_dense
        self._is_sent = is_sent
        self._sparse_dimensions = {}  # of parameters whose gradients have been sparse
        self._made_dense = set()  # parameters whose sparse gradients are dense until synchronize()
        self._left = {}  # parameter -> number of passes until it is submitted
        self._counted = set()  # parameters with a pass since the last step
        self._held = []  # parameters whose gradients are complete but not submitted yet
        self._held_bytes = 0
        self._begun = {}  # parameter -> (function that waits and returns the result, context of its compression)
        self._repeated = {}  # parameter -> its reduction
        self._has_views = has_views and is_sent and compression is Compression.none and buckets.are_wanted()
        self._buckets = None
        self._begun_buckets = {}  # Bucket -> function that waits
        self._accumulators = []
        takes_part = world.takes_part(process_set)
        if takes_part and (world.size() > 1 or os.environ.get("HOROVOD_ELASTIC") == "1"):
            self._hook()

    @property
    def are_begun(self):
        """True if a backward pass has run since the last synchronize()."""
        return bool(self._counted)

    @property
    def names(self):
        """{parameter: name} of all parameters."""
        return dict(self._names)

    def parameters(self):
        """Returns the parameters that take part, in the optimizer's order."""
        return list(self._left)

    def name_of(self, parameter):
        """Returns the parameter's name, the same on all ranks."""
        return self._names[parameter]

    def set_passes(self, passes):
        """Sets the number of backward passes after which gradients are submitted."""
        self._passes = passes
        self._left = dict.fromkeys(self._left, passes)

    def _hook(self):
        # Pass the hooks a weak reference, so that they do not keep this object alive. Keep the accumulators, which add
        # to .grad: otherwise they and their hooks would be deleted.
        this = weakref.ref(self)
        for parameter in self._names:
            if parameter.requires_grad:
                self._left[parameter] = self._passes
                with torch.enable_grad():
                    accumulator = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
                accumulator.register_hook(_hook_of(this, parameter))
                self._accumulators.append(accumulator)

    def _accumulated(self, parameter):
        left = self._left[parameter] - 1
        if left < 0:
            raise AssertionError(_TOO_MANY.format(self._names[parameter]))
        if parameter.grad.requires_grad:
            raise AssertionError(_HAS_GRAPH.format(self._names[parameter]))
        self._left[parameter] = left
        if not self._counted:
            self._leave_old_buckets()
        self._counted.add(parameter)
        if left == 0 and self._is_sent:
            self._completed(parameter)

    def _completed(self, parameter):
        bucket = self._bucket_of(parameter)
        group = self._groups.get(parameter)
        if bucket is not None:
            self._make_dense(parameter)
            if bucket.add(parameter):
                self._begun_buckets[bucket] = bucket.begin()
        elif group is None:
            self._hold(parameter)
        elif not any(self._left[member] for member in group):
            self._submit_group(group)

    def _bucket_of(self, parameter):
        return None if self._buckets is None else self._buckets.of.get(parameter)

    def _leave_old_buckets(self):
        """After shutdown() the buckets are memory of this process alone, and ranks that are new have none."""
        if self._buckets is not None and not self._buckets.are_current():
            self._buckets = None

    def _make_buckets(self):
        if not self._has_views or self._buckets is not None or world.size_of(self.process_set) == 1:
            return
        fitting = [parameter for parameter in self._left if parameter not in self._groups and
                   parameter not in self._sparse_dimensions and buckets.can_hold(parameter)]
        if not fitting:
            return
        # All ranks get this error alike: a rank has joined, or has other parameters that fit. Then all reduce each
        # gradient by itself, and try again after the next step, when the rank may be back.
        with contextlib.suppress(RanksDifferError):
            self._buckets = buckets.Buckets(self._names, fitting, self.process_set, self._scales)

    def _make_dense(self, parameter):
        """Makes a sparse gradient dense that has a place in a bucket. _finish_bucket() makes it sparse again."""
        if parameter.grad is not None and parameter.grad.is_sparse:
            self._sparse_dimensions[parameter] = parameter.grad.sparse_dim()
            self._made_dense.add(parameter)
            parameter.grad = parameter.grad.to_dense()

    def _hold(self, parameter):
        self._held.append(parameter)
        self._held_bytes += parameter.numel() * parameter.element_size()
        if self._held_bytes >= _HELD_BYTES:
            self._submit_held()

    def _submit_held(self):
        held, self._held, self._held_bytes = self._held, [], 0
        for parameter in held:
            self._submit(parameter)

    def _gradient(self, parameter):
        """Returns the gradient in the form in which it is reduced. Without a gradient it returns zeros. If it makes a
        sparse gradient dense, _set_result() makes the result sparse again."""
        gradient = parameter.grad
        if gradient is None:
            parameter.grad = gradient = _zeros(parameter, self._sparse_dimensions.get(parameter))
        elif gradient.is_sparse:
            self._sparse_dimensions[parameter] = gradient.sparse_dim()
        if gradient.is_sparse and self._sparse_as_dense:
            parameter.grad = gradient = gradient.to_dense()
            self._made_dense.add(parameter)
        return gradient

    def _submit(self, parameter):
        gradient = self._gradient(parameter)
        if gradient.is_sparse:
            name = self._names[parameter]
            wait = asynchronous.sparse_allreduce_async(gradient, name, self._scales["op"], self.process_set)
            self._begun[parameter] = wait, None
            return
        repeated = self._repeated.get(parameter)
        if repeated is None:
            repeated = Repeated(self._names[parameter], self.process_set, **self._scales)
            self._repeated[parameter] = repeated
        [(sent, ctx)], wire = compress(self.compression, [gradient], self._scales["op"])
        self._begun[parameter] = repeated.begin(sent, wire), ctx

    def _submit_group(self, group):
        """Submits the group. Its sparse members are submitted alone."""
        dense = []
        for parameter in group:
            if self._gradient(parameter).is_sparse:
                self._submit(parameter)
            else:
                dense.append(parameter)
        if not dense:
            return
        pairs, wire = compress(self.compression, [parameter.grad for parameter in dense], self._scales["op"])
        handle = asynchronous.grouped_allreduce_async_([sent for sent, _ in pairs], name=self._names[dense[0]],
                                                       process_set=self.process_set, wire=wire, **self._scales)
        results = _Results(handle)
        for i, (parameter, (_, ctx)) in enumerate(zip(dense, pairs)):
            self._begun[parameter] = (lambda i=i: results.wait()[i]), ctx

    def synchronize(self):
        """Submits the remaining gradients and waits for all. Then it raises the first error, a HorovodInternalError."""
        if not self._is_sent:
            return
        self._leave_old_buckets()
        self._submit_held()
        self._submit_buckets()
        for parameter in self._left:
            if parameter not in self._begun and self._bucket_of(parameter) is None:
                group = self._groups.get(parameter)
                if group is None:
                    self._submit(parameter)
                else:
                    self._submit_group(group)
        with torch.no_grad():
            self._wait(self._set_result, self._finish_bucket)
        self._make_buckets()

    def _submit_buckets(self):
        for bucket in self._buckets.all if self._buckets is not None else []:
            if bucket not in self._begun_buckets:
                for parameter in bucket.views:
                    self._make_dense(parameter)
                self._begun_buckets[bucket] = bucket.begin()

    def _finish_bucket(self, bucket):
        bucket.finish()
        for parameter in self._made_dense.intersection(bucket.views):
            parameter.grad = parameter.grad.to_sparse(self._sparse_dimensions[parameter])

    def drop(self):
        """Waits for all submitted gradients, and ignores their results and failures."""
        with contextlib.suppress(HorovodInternalError):
            self._wait(lambda parameter, result, ctx: None, lambda bucket: None)

    def _wait(self, use, finish):
        """Waits for all. `use` gets each parameter and its result, `finish` each bucket."""
        begun, self._begun = self._begun, {}
        begun_buckets, self._begun_buckets = self._begun_buckets, {}
        self._held, self._held_bytes = [], 0
        self._counted.clear()
        self._left = dict.fromkeys(self._left, self._passes)
        failure = None
        for parameter, (wait, ctx) in begun.items():
            try:
                use(parameter, wait(), ctx)
            except RuntimeError as problem:
                failure = failure or problem
        for bucket, wait in begun_buckets.items():
            try:
                wait()
                finish(bucket)
            except RuntimeError as problem:
                failure = failure or problem
        for bucket in self._buckets.all if self._buckets is not None else []:
            bucket.restart()
        self._made_dense.clear()
        if failure is not None:
            raise failure

    def _set_result(self, parameter, result, ctx):
        if result.is_sparse:
            parameter.grad = result
            return
        result = self.compression.decompress(result, ctx)
        if result is not parameter.grad:
            parameter.grad.copy_(result)
        if parameter in self._made_dense:
            parameter.grad = parameter.grad.to_sparse(self._sparse_dimensions[parameter])


def _zeros(parameter, sparse_dimensions):
    """Returns a gradient of zeros. With `sparse_dimensions` it is sparse and has no entries."""
    options = {"dtype": parameter.dtype, "device": parameter.device}
    shape = parameter.shape
    if sparse_dimensions is None:
        return torch.zeros(shape, **options)
    indices = torch.empty(sparse_dimensions, 0, dtype=torch.int64, device=parameter.device)
    return torch.sparse_coo_tensor(indices, torch.empty(0, *shape[sparse_dimensions:], **options), shape)


def _hook_of(gradients, parameter):
    def accumulated(*_):
        found = gradients()
        if found is not None:
            found._accumulated(parameter)

    return accumulated


class _Results:
    """The results of a grouped operation. Several callers wait for them."""

    def __init__(self, handle):
        self._handle = handle
        self._results = None
        self._failure = None

    def wait(self):
        """Returns the list of results. Every call raises the error if the operation failed."""
        if self._failure is None and self._results is None:
            try:
                self._results = asynchronous.synchronize(self._handle)
            except RuntimeError as problem:
                self._failure = problem
        if self._failure is not None:
            raise self._failure
        return self._results
