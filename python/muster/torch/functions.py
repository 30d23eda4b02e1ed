"""Gives the state of a training to all ranks: parameters, the optimizer's state, any object."""

import torch

from muster import registered
from muster.numpy import allgather_object, broadcast_object
from muster.torch import tensors as memory
from muster.torch.asynchronous import broadcast_async_, synchronize
from muster.world import global_process_set, rank


def broadcast_parameters(params, root_rank, process_set=global_process_set):
    """Gives all ranks the values of `root_rank` (a rank of the world), in place.

    params: model.state_dict(), model.named_parameters(), or a list of tensors. All broadcasts run at the same time.
    ValueError: `params` contains something other than tensors."""
    if hasattr(params, "items"):
        pairs = sorted(params.items())
    else:
        pairs = [param if isinstance(param, tuple) else (None, param) for param in params]
    for name, tensor in pairs:
        if not isinstance(tensor, torch.Tensor):
            raise ValueError(f"broadcast_parameters: '{name}' is a {type(tensor).__name__}, not a tensor: use "
                             "broadcast_object() for other objects")
    _broadcast_all(pairs, root_rank, process_set)


def _broadcast_all(pairs, root_rank, process_set):
    handles = [broadcast_async_(tensor.detach(), root_rank, name, process_set) for name, tensor in pairs]
    failure = None
    # Wait for all, even if one fails, because libmuster writes to the tensors until they are done.
    for handle in handles:
        try:
            synchronize(handle)
        except RuntimeError as problem:
            failure = failure or problem
    if failure is not None:
        raise failure


class _Shape:
    """Replaces a tensor in the skeleton. The tensor itself is sent separately."""

    def __init__(self, tensor):
        self.shape, self.dtype = tuple(tensor.shape), tensor.dtype


def broadcast_optimizer_state(optimizer, root_rank, model=None):
    """Gives all ranks the state and the options of the optimizer of `root_rank`: everything in its state_dict().

    On other ranks the state may be empty or different. If an optimizer has no state, it first takes a step with zero
    gradients. The parameters keep these gradients. Scripts that ran under Horovod rely on this step.
    `model`: the parameters of its sparse Embeddings get sparse zeros. ValueError: the optimizer is an LBFGS, as in
    Horovod."""
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError("broadcast_optimizer_state: the state of an LBFGS cannot be broadcast")
    if not optimizer.state_dict()["state"]:
        _step_with_zeros(optimizer, model)
    is_root = rank() == root_rank
    tensors = []
    skeleton = _split_off_tensors(optimizer.state_dict(), tensors) if is_root else None
    skeleton = broadcast_object(skeleton, root_rank, name="optimizer_state")
    state = None
    if not is_root:
        state = _join_tensors(skeleton, tensors)
    _broadcast_all([(f"optimizer_state.{i}", tensor) for i, tensor in enumerate(tensors)], root_rank,
                   global_process_set)
    if not is_root:
        _load(optimizer, state)


def _step_with_zeros(optimizer, model):
    """Takes a step of the user's optimizer on this rank only, with zero gradients. The step creates momenta and other
    state."""
    modules = [] if model is None else model.modules()
    sparse = {id(module.weight) for module in modules if isinstance(module, torch.nn.Embedding) and module.sparse}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.requires_grad:
                parameter.grad = torch.zeros_like(parameter, memory_format=torch.preserve_format)
                if isinstance(optimizer, torch.optim.SparseAdam) or (isinstance(optimizer, torch.optim.SGD) and
                                                                     id(parameter) in sparse):
                    parameter.grad = parameter.grad.to_sparse()
    own_step = getattr(optimizer, "step_alone", optimizer.step)
    own_step()


def _split_off_tensors(value, tensors):
    """Returns the skeleton: `value` with a _Shape in place of every tensor. Appends the tensors to `tensors`."""
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return _Shape(value)
    if isinstance(value, dict):
        return {key: _split_off_tensors(item, tensors) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_split_off_tensors(item, tensors) for item in value)
    return value


def _join_tensors(value, tensors):
    """Reverses _split_off_tensors(): returns the skeleton `value` with a new tensor in place of every _Shape. Appends
    the new tensors to `tensors`."""
    if isinstance(value, _Shape):
        tensors.append(torch.empty(value.shape, dtype=value.dtype))
        return tensors[-1]
    if isinstance(value, dict):
        return {key: _join_tensors(item, tensors) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_join_tensors(item, tensors) for item in value)
    return value


def _load(optimizer, state):
    """Does load_state_dict(), but keeps the objects of the parameter groups, because the wrapped optimizer or a
    scheduler uses them, too."""
    groups = optimizer.param_groups
    optimizer.load_state_dict(state)
    for group, loaded in zip(groups, optimizer.param_groups):
        group.clear()
        group.update(loaded)
    optimizer.param_groups = groups


def empty_registered(*shape, dtype=None, name=None, process_set=global_process_set):
    """Returns a tensor of zeros on the CPU, in memory that the ranks of a host share: allreduce_() of it copies nothing,
    unless libmuster packs it with other small tensors. Collective: all ranks ask for the same size, and reduce the same
    tensors. `shape` is as in torch.empty(). ValueError: libmuster does not know the type.

    The memory is free when no tensor refers to it any more, also after shutdown()."""
    like = torch.empty(*shape, dtype=dtype, device="meta")
    if like.dtype not in memory.TYPES:
        raise ValueError(f"tensors of {like.dtype} are not supported here")
    output = registered.new(like.numel() * like.element_size(), name, process_set)
    if like.numel() == 0:
        return torch.empty(like.shape, dtype=like.dtype)
    return memory.made(output).view(like.dtype).resize_(like.shape)
