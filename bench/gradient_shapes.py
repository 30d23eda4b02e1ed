"""The parameters of ResNet-50 and VGG-16 for ImageNet (1000 classes, images of 224 × 224), layer by layer in the order of
the forward pass, with the multiply-adds that the forward pass of one image does in each.

ResNet-50, by He et al. 2015, 1 × 1 convolutions without stride in a block's first layer (as torchvision's). Every
convolution is without bias and followed by a batch norm of two vectors:

    stem      7·7·3·64 + 2·64                                =      9,536
    stage 1   3 blocks of width 64, 256 channels out         =    215,808
    stage 2   4 blocks of width 128, 512 channels out        =  1,219,584
    stage 3   6 blocks of width 256, 1024 channels out       =  7,098,368
    stage 4   3 blocks of width 512, 2048 channels out       = 14,964,736
    classes   2048·1000 + 1000                               =  2,049,000
                                                        sum  = 25,557,032

    A block of width w on c channels has c·w + 9·w·w + w·4w, and 2·(w + w + 4w) of its batch norms; the first one of a
    stage has c·4w + 2·4w more for the shortcut. Stage 2: 379,392 for the first (c = 256), 280,064 for three (c = 512).

VGG-16, by Simonyan and Zisserman 2014 (configuration D, no batch norm), every layer with a bias:

    13 convolutions of 3 × 3, 64 to 512 channels             =  14,714,688
    7·7·512·4096 + 4096                                      = 102,764,544
    4096·4096 + 4096                                         =  16,781,312
    4096·1000 + 1000                                         =   4,097,000
                                                        sum  = 138,357,544
"""

import math
from typing import List, NamedTuple, Tuple

CLASSES = 1000


class Layer(NamedTuple):
    """`multiply_adds` of the forward pass for one image."""
    name: str
    shapes: List[Tuple[int, ...]]
    multiply_adds: int

    def parameters(self):
        return sum(math.prod(shape) for shape in self.shapes)


def _convolution(name, channels_in, channels_out, kernel, side, has_bias=False):
    """`side`: of its output."""
    weight = (channels_out, channels_in, kernel, kernel)
    return Layer(name, [weight, (channels_out,)] if has_bias else [weight], math.prod(weight) * side * side)


def _batch_norm(name, channels, side):
    return Layer(name, [(channels,), (channels,)], 2 * channels * side * side)


def _linear(name, inputs, outputs):
    return Layer(name, [(outputs, inputs), (outputs,)], inputs * outputs)


def _normed(name, channels_in, channels_out, kernel, side):
    return [_convolution(f"{name}.conv", channels_in, channels_out, kernel, side),
            _batch_norm(f"{name}.norm", channels_out, side)]


def _bottleneck(name, channels, width, side_in, side):
    """Three convolutions; where the shape changes, one more on the shortcut."""
    layers = [*_normed(f"{name}.1", channels, width, 1, side_in), *_normed(f"{name}.2", width, width, 3, side),
              *_normed(f"{name}.3", width, 4 * width, 1, side)]
    if channels != 4 * width:
        layers += _normed(f"{name}.shortcut", channels, 4 * width, 1, side)
    return layers


def resnet50():
    """25,557,032 parameters in 161 tensors."""
    layers = _normed("stem", 3, 64, 7, 112)
    channels, side = 64, 56
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for block in range(blocks):
            side_in, side = side, (side // 2 if stage > 0 and block == 0 else side)
            layers += _bottleneck(f"stage{stage + 1}.{block}", channels, width, side_in, side)
            channels = 4 * width
    return layers + [_linear("classes", channels, CLASSES)]


def vgg16():
    """138,357,544 parameters in 32 tensors."""
    layers, channels, side = [], 3, 224
    for stage, widths in enumerate(((64,) * 2, (128,) * 2, (256,) * 3, (512,) * 3, (512,) * 3)):
        for number, width in enumerate(widths):
            layers.append(_convolution(f"stage{stage + 1}.{number}", channels, width, 3, side, has_bias=True))
            channels = width
        side //= 2
    return layers + [_linear("hidden1", channels * side * side, 4096), _linear("hidden2", 4096, 4096),
                     _linear("classes", 4096, CLASSES)]


NETWORKS = {"resnet50": (resnet50, 161, 25_557_032), "vgg16": (vgg16, 32, 138_357_544)}


def layers_of(network):
    """The layers of "resnet50" or "vgg16". AssertionError: they do not add up."""
    make, tensors, parameters = NETWORKS[network]
    layers = make()
    assert sum(len(layer.shapes) for layer in layers) == tensors, network
    assert sum(layer.parameters() for layer in layers) == parameters, network
    return layers
