"""What torch.autograd names."""

from tinygrad_tf.autograd import functional, graph
from tinygrad_tf.autograd.anomaly import detect_anomaly, set_detect_anomaly
from tinygrad_tf.autograd.differentiate import backward, grad
from tinygrad_tf.autograd.function import Function
from tinygrad_tf.autograd.grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from tinygrad_tf.autograd.gradcheck import GradcheckError, GradcheckWarning, gradcheck, gradgradcheck, gradient_report
from tinygrad_tf.autograd.modules import check_module
from tinygrad_tf.autograd.pairs import check_backward

__all__ = [
    "Function",
    "GradcheckError",
    "GradcheckWarning",
    "backward",
    "check_backward",
    "check_module",
    "detect_anomaly",
    "enable_grad",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "gradient_report",
    "graph",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
]
