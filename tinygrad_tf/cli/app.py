"""The commands and their options, and how errors reach the user: in one line."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from tinygrad_tf._signals import COMMAND
from tinygrad_tf.cli.bench import command as bench
from tinygrad_tf.cli.interrupts import Ending
from tinygrad_tf.cli.options import PlainUsage, argument, nearest, option, read_number, read_settings, with_settings
from tinygrad_tf.utils.errors import InputError

Job = Callable[[], int]

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,  # in rich's tables names and defaults are cut off where the terminal is narrow
    help="Train small language models on a CPU, with an engine and a Transformer that can be read in an evening.",
    context_settings={"help_option_names": ["--help", "-h"]},
)


@app.callback(invoke_without_command=True)
def _program(version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False) -> None:
    if version:
        from tinygrad_tf._version import __version__

        print(f"tinygrad_tf {__version__}")
        raise typer.Exit()


@app.command("train", cls=PlainUsage)
@with_settings
def _train(
    settings: dict[str, Any],
    files: Annotated[list[str] | None, argument("FILE")] = None,
    out: Annotated[
        str | None, option("Where to write the run; must not exist, or be empty.", "FOLDER", "runs/DATE-TIME")
    ] = None,
    resume: Annotated[str | None, option("Go on with this run, exactly where it stopped.", "RUN")] = None,
    preset: Annotated[
        str | None,
        option(
            "Settings by name: nanoGPT's small or baby, or quick, the lowest loss in about a minute.", "NAME", "small"
        ),
    ] = None,
    minutes: Annotated[
        str | None,
        option(
            "Choose steps, and unless given the model's size, to be done in that time (and that of compiling, once).",
            "X",
            "no limit",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Try the whole path once, at batch 1 and context 10; keep nothing.")
    ] = False,
    overfit: Annotated[
        bool,
        typer.Option(
            "--overfit-one-batch",
            help="Only see whether the model can learn one batch by heart, in seconds; keep nothing. Exit code 1: no.",
        ),
    ] = False,
    encoding: Annotated[str, option("How the FILEs are encoded.", "NAME", "utf-8")] = "utf-8",
) -> Job:
    """Train a GPT on the characters of a text.

    FILE: UTF-8 texts, joined; - is standard input. Without any: the source of Python's standard library.

    Prints what it is going to do and how long that will take, then trains. Ctrl-C saves and says how to go on.
    """

    def job() -> int:
        chosen = read_settings(settings)
        limit = read_number("--minutes", minutes, float, 0.0)
        from tinygrad_tf.cli.train import Request, train

        return train(Request(tuple(files or ()), chosen, out, resume, limit, dry_run, encoding, overfit, preset))

    return job


@app.command("sample", cls=PlainUsage)
def _sample(
    run: Annotated[str, argument("RUN")],
    prompt: Annotated[str, option("The text to go on from.", "TEXT", "a line break")] = "",
    length: Annotated[str | None, option("Characters to add.", "N", "500")] = None,
    temperature: Annotated[
        str | None, option("How daring: 0 always takes the likeliest character.", "X", "0.8")
    ] = None,
    top_k: Annotated[str | None, option("Draw among the N likeliest only.", "N", "all")] = None,
    top_p: Annotated[
        str | None, option("Draw among the likeliest that together have this probability.", "X", "all")
    ] = None,
    min_p: Annotated[
        str | None, option("Leave out what is less than X times as likely as the likeliest.", "X", "nothing")
    ] = None,
    repetition_penalty: Annotated[
        str | None, option("Above 1: what occurred in the text becomes less likely.", "X", "1")
    ] = None,
    no_repeat: Annotated[
        str | None, option("No piece of N characters twice, where there is a choice.", "N", "repeats are allowed")
    ] = None,
    beams: Annotated[
        str | None, option("Look for the likeliest text with N beams, instead of drawing one.", "N", "draw")
    ] = None,
    length_penalty: Annotated[str | None, option("Above 0: beams may be longer.", "X", "0")] = None,
    stop: Annotated[
        list[str] | None, option("End behind this text (\\n is a line break); may be given again.", "TEXT", "never")
    ] = None,
    seed: Annotated[str | None, option("The same seed gives the same text.", "N", "another each time")] = None,
    best: Annotated[
        bool, typer.Option("--best", help="Use the weights of the best validation loss, not the latest.")
    ] = False,
) -> Job:
    """Write text with a trained model.

    RUN: the folder that train has written.

    The text appears character by character, with --beams at the end.
    """

    def job() -> int:
        rules = {
            "max_new_tokens": read_number("--length", length, int, 1, 500),
            "temperature": read_number("--temperature", temperature, float, 0.0),
            "top_k": read_number("--top-k", top_k, int, 1),
            "top_p": read_number("--top-p", top_p, float, 0.0),
            "min_p": read_number("--min-p", min_p, float, 0.0),
            "repetition_penalty": read_number("--repetition-penalty", repetition_penalty, float, 0.0),
            "no_repeat_ngram": read_number("--no-repeat", no_repeat, int, 1),
            "num_beams": read_number("--beams", beams, int, 1),
            "length_penalty": read_number("--length-penalty", length_penalty, float, 0.0),
        }
        number = read_number("--seed", seed, int, 0)
        from tinygrad_tf.cli.sample import Request, sample

        return sample(Request(run, prompt, rules, tuple(stop or ()), number, "best" if best else "latest"))

    return job


@app.command("gradcheck", cls=PlainUsage)
def _gradcheck(
    targets: Annotated[list[str] | None, argument("FILE.py[::NAME]")] = None,
    shape: Annotated[
        list[str] | None, option("The shape of an input, as 3,4; once for each input, in order.", "N,N", "see the file")
    ] = None,
    seed: Annotated[str | None, option("Of the random inputs.", "N", "0")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print every report.")] = False,
) -> Job:
    """Check gradients by finite differences.

    FILE.py[::NAME]: functions, NumPy pairs or modules to check. Without any: everything in this package.

    Exit code 1: a gradient is wrong.
    """

    def job() -> int:
        number = read_number("--seed", seed, int, 0, 0)
        from tinygrad_tf.cli.gradcheck import Request
        from tinygrad_tf.cli.gradcheck import run as check

        return check(Request(targets or (), shape or (), number, verbose))

    return job


app.command("bench", cls=PlainUsage)(bench)


def run(arguments: Sequence[str] | None = None) -> int:
    """Parse, do the job, give the exit code. Whatever is wrong with the input is one line on standard error."""
    words = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    with Ending(own=arguments is None) as ending:
        try:
            code = _run(words)
        except (KeyboardInterrupt, typer.Abort):  # training, once it has begun, ends in its own way
            code = _fail(_name(words), "stopped", 128 + (ending.received or signal.SIGINT))
    if arguments is None and code > 128:  # one more Ctrl-C must not meet the interpreter's last lines
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return code


def _name(words: list[str]) -> str:
    """What a line on standard error begins with."""
    return f"{COMMAND} {words[0]}" if words[0] in {command.name for command in app.registered_commands} else COMMAND


def _run(words: list[str]) -> int:
    command, name = typer.main.get_command(app), _name(words)
    _open_streams()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):  # a character the terminal lacks shows as ?
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        job = command.main(words, prog_name="tinygrad-tf", standalone_mode=False)
        if job == 128 + signal.SIGINT:  # what some versions of typer make of KeyboardInterrupt
            raise KeyboardInterrupt
        return job() if callable(job) else int(job or 0)
    except InputError as error:
        return _fail(name, str(error), 2)
    except MemoryError as error:
        return _fail(name, f"not enough memory ({error}); a smaller model, batch, context or text takes less", 2)
    except BrokenPipeError:  # the reader, head for example, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # of the disk or the terminal; what is wrong with a named file is told where it is read
        return _fail(name, f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error), 1)
    except Exception as error:
        if str(error).startswith("TINYGRAD_TF_"):  # a variable of the environment, which the kernels refuse
            return _fail(name, str(error), 2)
        if hasattr(error, "format_message"):  # of the option parser, whose classes differ between versions of typer
            return _fail(name, _parser_message(error, command, words), 2)
        raise


def _open_streams() -> None:
    """Standard streams that are closed lead nowhere; else the next file that is opened would get their number."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - as long as the process


def _fail(name: str, message: str, code: int) -> int:
    print(f"{name}: {' '.join(message.split())}", file=sys.stderr, flush=True)
    return code


def _parser_message(error: Any, command: Any, words: list[str]) -> str:
    """The option parser's complaint in one line, with the nearest name for a mistyped one."""
    current = command.commands.get(words[0]) if words else None
    if hasattr(error, "option_name") and type(error).__name__ == "NoSuchOption":
        names = [name for p in (current or command).params for name in [*p.opts, *p.secondary_opts] if name[:2] == "--"]
        hint = nearest(error.option_name, [*names, "--help"])
        return f"there is no option {error.option_name}{hint}" + ("" if hint else "; --help lists them")
    if current is None and words and not words[0].startswith("-"):
        names = list(command.commands)
        return f"there is no command {words[0]!r}{nearest(words[0], names) or '; there are ' + ', '.join(names)}"
    return str(error.format_message()).rstrip(".") + "; --help shows the options"
