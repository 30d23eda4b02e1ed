"""Writes the numbers of elements of a model's gradients, one a line: tensor_sizes.py resnet50|bert_large.

BERT-large (Devlin et al. 2018): 24 layers of width 1024 with 4096 in the middle, 30522 words, 512 places, 2 segments, a
pooler, and the two heads of its pre-training, whose decoder shares the words' matrix.
"""

import math
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench"))


def resnet50():
    import gradient_shapes
    return [math.prod(shape) for layer in gradient_shapes.resnet50() for shape in layer.shapes]


def bert_large():
    width, middle = 1024, 4096
    embeddings = [30522 * width, 512 * width, 2 * width, width, width]
    attention = 4 * [width * width, width] + [width, width]
    layer = attention + [width * middle, middle, middle * width, width, width, width]
    heads = [width * width, width] + [width * width, width, width, width, 30522] + [2 * width, 2]
    return embeddings + 24 * layer + heads


if __name__ == "__main__":
    print("\n".join(str(size) for size in {"resnet50": resnet50, "bert_large": bert_large}[sys.argv[1]]()))
