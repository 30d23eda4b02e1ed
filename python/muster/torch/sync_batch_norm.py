"""Normalizes batches with the statistics of all ranks' batches."""

import torch
from torch.autograd import Function
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm

from muster.engine import Sum
from muster.torch.asynchronous import allgather_async, allreduce_async, synchronize
from muster.world import size


class SyncBatchNorm(_BatchNorm):
    """Replaces torch.nn.BatchNorm1d, 2d and 3d. It uses the mean and variance of all ranks' batches. The batches may
    differ in size.

    Input: (N, C, ...). In training all ranks call forward() and backward() together. In evaluation, and in a world of
    one rank, it is an ordinary batch normalization. The gradients of weight and bias are not reduced."""

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True):
        super().__init__(num_features, eps, momentum, affine, track_running_stats)

    def _check_input_dim(self, input):
        if input.dim() < 2:
            raise ValueError(f"SyncBatchNorm needs an input of shape (N, C, ...), not {list(input.shape)}")

    def forward(self, input):
        """Returns the normalized input."""
        if not self.training or size() == 1:
            return super().forward(input)
        self._check_input_dim(input)
        output, mean, variance, count = _Normalize.apply(input, self.weight, self.bias, self.eps)
        if self.track_running_stats:
            self._track(mean, variance, count)
        return output

    @torch.no_grad()
    def _track(self, mean, variance, count):
        self.num_batches_tracked.add_(1)
        share = 1.0 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        unbiased = variance * (count / (count - 1).clamp(min=1))
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
        self.running_var.lerp_(unbiased.to(self.running_var.dtype), share)


class _Normalize(Function):
    """Returns (the normalized input, mean, variance, number of elements of a channel). The last three cover all ranks'
    batches and are float64."""

    @staticmethod
    def forward(ctx, input, weight, bias, eps):
        mean, variance, count = _statistics(input)
        ctx.save_for_backward(input, weight, mean, variance, count)
        ctx.eps = eps
        kind = _computed_type(input)
        output = functional.batch_norm(input.to(kind), mean.to(kind), variance.to(kind),
                                       None if weight is None else weight.to(kind),
                                       None if bias is None else bias.to(kind), False, 0.0, eps).to(input.dtype)
        ctx.mark_non_differentiable(mean, variance, count)
        return output, mean, variance, count

    @staticmethod
    def backward(ctx, grad, *_):
        input, weight, mean, variance, count = ctx.saved_tensors
        kind = _computed_type(input)
        channels = [1, -1] + [1] * (input.dim() - 2)
        others = [0, *range(2, input.dim())]
        centered = input.to(kind) - mean.to(kind).view(channels)
        inverse = (variance + ctx.eps).rsqrt().to(kind)
        grad = grad.to(kind)
        own = torch.stack([grad.sum(others), (grad * centered).sum(others)])
        need_input, need_weight, need_bias, _ = ctx.needs_input_grad
        grad_input = None
        # Call allreduce even if this rank's input needs no gradient: the other ranks may need it.
        sums = synchronize(allreduce_async(own.to(torch.float64), name=f"sync_batch_norm.backward.{len(mean)}", op=Sum))
        if need_input:
            means = (sums / count).to(kind)
            scale = inverse if weight is None else inverse * weight.to(kind)
            slope = (inverse * inverse * means[1]).view(channels)
            grad_input = ((grad - means[0].view(channels) - centered * slope) * scale.view(channels)).to(input.dtype)
        grad_weight = (own[1] * inverse).to(weight.dtype) if need_weight else None
        grad_bias = own[0].to(weight.dtype) if need_bias else None
        return grad_input, grad_weight, grad_bias, None


def _computed_type(tensor):
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32


def _statistics(input):
    """Returns the mean, biased variance and number of elements of each channel over all ranks. All ranks get the same
    bits."""
    features = input.shape[1]
    count = input.numel() // features
    if count:
        variance, mean = torch.var_mean(input.to(_computed_type(input)), [0, *range(2, input.dim())], unbiased=False)
    else:
        variance = mean = torch.zeros(features, device=input.device)
    own = torch.cat([mean.to(torch.float64), variance.to(torch.float64), torch.tensor([count], dtype=torch.float64, device=input.device)])
    # Layers with the same number of channels share this name. This is safe, because no other call uses the name.
    table = synchronize(allgather_async(own.view(1, -1), name=f"sync_batch_norm.{features}"))
    means, variances, counts = table[:, :features], table[:, features:-1], table[:, -1:]
    total = counts.sum()
    if total <= 1:
        raise ValueError(f"SyncBatchNorm: all ranks together have {int(total)} values of a channel, too few to train "
                         "with")
    mean = (counts * means).sum(0) / total
    variance = (counts * (variances + (means - mean) ** 2)).sum(0) / total
    return mean, variance, total
