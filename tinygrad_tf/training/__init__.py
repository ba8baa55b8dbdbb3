"""Training runs: configuration, loop, checkpoints, calibration; what a decoder reads while it learns."""

from tinygrad_tf.training.checkpoint import Run
from tinygrad_tf.training.config import TrainConfig
from tinygrad_tf.training.scheduled_sampling import mixed_inputs, shift_right, teacher_share
from tinygrad_tf.training.trainer import Record, Trainer, TrainerState, TrainingError

__all__ = [
    "Record",
    "Run",
    "TrainConfig",
    "Trainer",
    "TrainerState",
    "TrainingError",
    "mixed_inputs",
    "shift_right",
    "teacher_share",
]
