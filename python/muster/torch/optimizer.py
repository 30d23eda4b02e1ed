"""DistributedOptimizer: an optimizer of the user's class whose step() uses the gradients of all ranks."""

import contextlib
import warnings

import torch

from muster import world
from muster.engine import Adasum, Average
from muster.torch import asynchronous
from muster.torch.compression import Compression
from muster.torch.gradients import Gradients
from muster.torch.grouping import groups_of, names_of
from muster.world import global_process_set

_ZERO_GRAD = ("zero_grad() between backward() and step() (or synchronize()) would change gradients that are being "
              "reduced: call zero_grad() after step()")
# Keep the beginning of this text: it is Horovod's, and scripts filter it.
_STEP_TWICE = ("optimizer.step() called without optimizer.skip_synchronize() after synchronize() reduces all gradients a "
               "second time: call it within `with optimizer.skip_synchronize():`")


class _Distributed:
    """The methods that DistributedOptimizer() adds to the user's optimizer. Not thread-safe."""

    def synchronize(self):
        """Waits until the gradients are reduced over all ranks. Gradients that were not computed count as zeros."""
        self._gradients.synchronize()
        self._is_synchronized = True

    @contextlib.contextmanager
    def skip_synchronize(self):
        """A context in which step() does not call synchronize(). The caller must call synchronize() before."""
        self._skips = True
        try:
            yield
        finally:
            self._skips = False

    @property
    def _parameter_names(self):
        """{parameter: name}. Scripts use this attribute."""
        return self._gradients.names

    def set_backward_passes_per_step(self, passes):
        """Sets how many backward passes add to the gradients before they are reduced."""
        self._gradients.set_passes(passes)

    def step(self, closure=None):
        """Takes a step of the user's optimizer with the gradients of all ranks. If `closure` computes gradients, it
        reduces those, too."""
        if closure is None:
            self._synchronize_for_step()
            result = super().step()
        else:
            result = super().step(self._synchronized_closure(closure))
        self._is_synchronized = False
        return result

    def step_alone(self):
        """Takes a step of the user's optimizer with the present gradients. No other rank takes part."""
        return super().step()

    def _synchronize_for_step(self):
        if self._skips:
            return
        if self._is_synchronized:
            warnings.warn(_STEP_TWICE)
        self.synchronize()

    def _synchronized_closure(self, closure):
        # An optimizer may call the closure several times in a step.
        def call():
            self._is_synchronized = False
            loss = closure()
            self._synchronize_for_step()
            return loss

        if self._gradients.are_begun:
            self._synchronize_for_step()
        return call

    def zero_grad(self, *args, **kwargs):
        """Does zero_grad() of the user's optimizer. AssertionError: gradients are being reduced."""
        if self._gradients.are_begun:
            raise AssertionError(_ZERO_GRAD)
        return super().zero_grad(*args, **kwargs)

    def load_state_dict(self, *args, **kwargs):
        """Does load_state_dict() of the user's optimizer. It first waits for running reductions and drops their
        results."""
        self._gradients.drop()
        self._is_synchronized = False
        return super().load_state_dict(*args, **kwargs)


class _DistributedAdasum(_Distributed):
    """Every rank takes its own step, and Adasum combines the steps."""

    def synchronize(self):
        """Does nothing, because this class does not reduce gradients."""

    @contextlib.contextmanager
    def skip_synchronize(self):
        """Raises AssertionError, because there is nothing to skip."""
        raise AssertionError("with op=Adasum there is nothing to skip: gradients are not reduced")
        yield  # pylint: disable=unreachable

    def step(self, closure=None):
        """Takes a step of the user's optimizer with this rank's gradients, and replaces it by the Adasum of all ranks'
        steps."""
        self._gradients.drop()
        parameters = self._gradients.parameters()
        with torch.no_grad():
            before = [parameter.detach().clone() for parameter in parameters]
        own = super(_Distributed, self).step  # pylint: disable=bad-super-call
        result = own() if closure is None else own(self._counted_closure(closure))
        with torch.no_grad():
            self._combine(parameters, before)
        return result

    def _counted_closure(self, closure):
        def call():
            loss = closure()
            self._gradients.drop()
            return loss

        return call

    def _combine(self, parameters, before):
        begun = []
        for parameter, start in zip(parameters, before):
            delta, ctx = self._gradients.compression.compress(parameter.detach() - start)
            handle = asynchronous.allreduce_async_(delta, name=self._gradients.name_of(parameter), op=Adasum,
                                                   process_set=self._gradients.process_set)
            begun.append((handle, ctx))
        for parameter, start, (handle, ctx) in zip(parameters, before, begun):
            delta = self._gradients.compression.decompress(asynchronous.synchronize(handle), ctx)
            parameter.copy_(start + delta)


def DistributedOptimizer(optimizer, named_parameters=None, compression=Compression.none, backward_passes_per_step=1,
                         op=Average, gradient_predivide_factor=1.0, num_groups=0, groups=None, sparse_as_dense=False,
                         process_set=global_process_set, gradient_as_bucket_view=True):
    """Returns an optimizer whose class is a subclass of the class of `optimizer`. Both share parameter groups and
    state. Each gradient is reduced as soon as loss.backward() has computed it. step() waits for all gradients.

    named_parameters: model.named_parameters(), with the same names on all ranks. Without it, parameters are numbered.
    backward_passes_per_step: gradients add up over this many backward passes, and are then reduced.
    op: Average, Sum, Min, Max, Product. Adasum reduces each rank's step instead of its gradients.
    gradient_predivide_factor: gradients are divided by this factor before the sum, and by size / factor after the sum.
    groups: gradients that are reduced as one unit: a number of groups, or lists of parameters. num_groups is its older
    name and is deprecated.
    sparse_as_dense: sparse gradients are dense while they are reduced. Otherwise they are gathered.
    process_set: ranks outside it take their own steps.
    gradient_as_bucket_view: after the first step, dense gradients of the CPU that are not compressed lie in memory that
    the ranks of a host share, so that their reduction copies nothing. `.grad` is then another tensor than before. If
    the program still has the tensor of the first step, that one stays `.grad`; views of it (`.grad.data`) are not
    noticed. False, or MUSTER_GRADIENT_VIEWS=0, turns this off; all ranks must agree.
    Additional methods: synchronize(), skip_synchronize(), set_backward_passes_per_step(). To change (clip) gradients,
    call synchronize(), change them, then `with optimizer.skip_synchronize(): optimizer.step()`. If a rank fails, step()
    or synchronize() raises HorovodInternalError.
    ValueError: a wrong setting, names that are missing or used twice, or a process set that was not added."""
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor needs op=Average: omit one of the two arguments")
    if num_groups != 0:
        warnings.warn("num_groups is the older name of groups: use groups", DeprecationWarning)
        groups = num_groups if groups is None else groups
    names = names_of(optimizer, named_parameters)
    is_adasum = op == Adasum and world.size() > 1
    base = optimizer.__class__
    added = _DistributedAdasum if is_adasum else _Distributed
    made_class = type(base.__name__, (added, base), {"__doc__": base.__doc__})
    made = made_class.__new__(made_class)
    # Don't copy "step": a scheduler may have replaced step() in the old optimizer.
    made.__dict__.update((name, value) for name, value in optimizer.__dict__.items() if name != "step")
    made._is_synchronized = made._skips = False
    made._gradients = Gradients(names, groups_of(names, groups), compression, backward_passes_per_step, op,
                                gradient_predivide_factor, sparse_as_dense, process_set, is_sent=not is_adasum,
                                has_views=gradient_as_bucket_view)
    return made
