"""`python -m tinygrad_tf` is the command tinygrad-tf."""

from tinygrad_tf.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
