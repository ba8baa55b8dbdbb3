"""Training runs: configuration, loop, checkpoints, calibration."""

from tinygrad_tf.training.checkpoint import Run
from tinygrad_tf.training.config import TrainConfig
from tinygrad_tf.training.trainer import Record, Trainer, TrainerState, TrainingError

__all__ = ["Record", "Run", "TrainConfig", "Trainer", "TrainerState", "TrainingError"]
