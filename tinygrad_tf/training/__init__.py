"""Training runs: configuration, loops, checkpoints, calibration; what a decoder reads while it learns."""

from tinygrad_tf.training.checkpoint import Run
from tinygrad_tf.training.config import TrainConfig
from tinygrad_tf.training.early_stopping import EarlyStopping
from tinygrad_tf.training.groups import parameter_groups
from tinygrad_tf.training.loop import Loop, Part, TrainerState, TrainingError, accumulate_gradients
from tinygrad_tf.training.overfit import Overfit, lowest_loss, overfit_one_batch
from tinygrad_tf.training.pair_trainer import PairConfig, PairRecord, PairTrainer, answers, exact_matches
from tinygrad_tf.training.scheduled_sampling import mixed_inputs, shift_right, teacher_share
from tinygrad_tf.training.schedules import rate_at
from tinygrad_tf.training.trainer import Record, Trainer

__all__ = [
    "EarlyStopping",
    "Loop",
    "Overfit",
    "PairConfig",
    "PairRecord",
    "PairTrainer",
    "Part",
    "Record",
    "Run",
    "TrainConfig",
    "Trainer",
    "TrainerState",
    "TrainingError",
    "accumulate_gradients",
    "answers",
    "exact_matches",
    "lowest_loss",
    "mixed_inputs",
    "overfit_one_batch",
    "parameter_groups",
    "rate_at",
    "shift_right",
    "teacher_share",
]
