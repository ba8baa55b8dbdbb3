"""Modules and layers, with PyTorch's names where PyTorch has them."""

from tinygrad_tf.nn import functional, init, utils
from tinygrad_tf.nn.attention import MultiHeadAttention
from tinygrad_tf.nn.blocks import Block, FeedForward
from tinygrad_tf.nn.container import ModuleDict, ModuleList, Sequential
from tinygrad_tf.nn.layers import (
    GELU,
    Dropout,
    Embedding,
    Identity,
    LayerNorm,
    Linear,
    ReLU,
    RMSNorm,
    Sigmoid,
    SiLU,
    Softmax,
    Tanh,
)
from tinygrad_tf.nn.module import Module
from tinygrad_tf.nn.parameter import Buffer, Parameter
from tinygrad_tf.nn.position import LearnedPositions, SinusoidalPositions

__all__ = [
    "GELU",
    "Block",
    "Buffer",
    "Dropout",
    "Embedding",
    "FeedForward",
    "Identity",
    "LayerNorm",
    "LearnedPositions",
    "Linear",
    "Module",
    "ModuleDict",
    "ModuleList",
    "MultiHeadAttention",
    "Parameter",
    "RMSNorm",
    "ReLU",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "SinusoidalPositions",
    "Softmax",
    "Tanh",
    "functional",
    "init",
    "utils",
]
