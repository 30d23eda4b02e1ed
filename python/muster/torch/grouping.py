"""Reads the names and groups of an optimizer's parameters from the arguments of DistributedOptimizer()."""

import torch


def names_of(optimizer, named_parameters):
    """Returns {parameter: name} of an optimizer's parameters, in the optimizer's order. ValueError: a name is missing
    or is used twice."""
    owned = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if named_parameters is None:
        return {parameter: f"allreduce.noname.{i}.{j}" for i, group in enumerate(optimizer.param_groups)
                for j, parameter in enumerate(group["params"])}
    pairs = list(named_parameters)
    if not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
        raise ValueError("named_parameters must contain pairs (name, parameter): pass model.named_parameters()")
    names = [name for name, _ in pairs]
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise ValueError(f"named_parameters contains these names more than once: {', '.join(twice)}")
    given = {parameter: name for name, parameter in pairs}
    without = [list(parameter.shape) for parameter in owned if parameter not in given]
    if without:
        raise ValueError(f"named_parameters lacks {len(without)} of the optimizer's parameters, of shapes "
                         f"{without[:6]}: name all of them or none")
    return {parameter: given[parameter] for parameter in owned}


def groups_of(names, groups):
    """Returns lists of parameters. The parameters of a list are reduced as one unit. `groups` is the number of lists,
    which then have about equal lengths, or the lists themselves. Parameters outside all lists are reduced one by one.
    The lists do not contain parameters without a gradient."""
    trained = [parameter for parameter in names if parameter.requires_grad]
    if groups is None:
        return []
    if isinstance(groups, int) and not isinstance(groups, bool):
        if groups < 0:
            raise ValueError(f"groups={groups}: the number of groups cannot be negative")
        return _split(trained, groups)
    if not isinstance(groups, (list, tuple)) or not all(_is_list_of_tensors(group) for group in groups):
        raise ValueError(f"groups is a {type(groups).__name__}: pass a number of groups, or a list of lists of "
                         "parameters")
    seen = set()
    for parameter in (parameter for group in groups for parameter in group):
        if parameter not in names:
            raise ValueError(f"groups has a tensor with shape {list(parameter.shape)} that is not a parameter of the "
                             "optimizer")
        if parameter in seen:
            raise ValueError(f"groups has '{names[parameter]}' twice")
        seen.add(parameter)
    known = set(trained)
    return [kept for kept in ([p for p in group if p in known] for group in groups) if kept]


def _is_list_of_tensors(group):
    return isinstance(group, (list, tuple)) and all(isinstance(item, torch.Tensor) for item in group)


def _split(items, count):
    if count == 0 or not items:
        return []
    count = min(count, len(items))
    bounds = [len(items) * i // count for i in range(count + 1)]
    return [items[begin:end] for begin, end in zip(bounds, bounds[1:])]
