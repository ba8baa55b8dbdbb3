"""The pytest plugin: a `gradcheck` fixture, failures that show the report alone, and a table of all checks.

    def test_layer(gradcheck):
        gradcheck(layer, inputs)              # as autograd.gradcheck
        gradcheck.second_order(layer, inputs)
        gradcheck.module(nn.Linear(3, 2), x)
        gradcheck.backward(forward, backward, arrays)

With `pytest --gradcheck-summary` the run ends with one line for each check that was made, by the fixture or not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

_KEY = "tinygrad_tf gradcheck"


class Checker:
    """What the fixture gives: called, it is gradcheck."""

    def __call__(self, func: Any, inputs: Any, **options: Any) -> bool:
        from tinygrad_tf.autograd import gradcheck

        return gradcheck(func, inputs, **options)

    def second_order(self, func: Any, inputs: Any, grad_outputs: Any = None, **options: Any) -> bool:
        """gradgradcheck"""
        from tinygrad_tf.autograd import gradgradcheck

        return gradgradcheck(func, inputs, grad_outputs, **options)

    def module(self, module: Any, inputs: Any, **options: Any) -> Any:
        """check_module"""
        from tinygrad_tf.autograd import check_module

        return check_module(module, inputs, **options)

    def backward(self, forward: Any, backward: Any, inputs: Any, **options: Any) -> Any:
        """check_backward"""
        from tinygrad_tf.autograd import check_backward

        return check_backward(forward, backward, inputs, **options)


@pytest.fixture
def gradcheck() -> Checker:
    """Check gradients: gradcheck(func, inputs), and .second_order, .module, .backward."""
    return Checker()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("gradcheck", "gradient checks (tinygrad_tf)")
    group.addoption(
        "--gradcheck-summary", action="store_true", help="after the tests, show a table of all gradient checks made"
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """The checks that fixtures make."""
    return (yield from _kept(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Those of the test itself."""
    return (yield from _kept(item))


def _kept(item: pytest.Item) -> Iterator[None]:
    """Keep what every check found, in a form that reaches the main process of pytest-xdist, too."""
    if not item.config.getoption("--gradcheck-summary"):
        return (yield)
    from tinygrad_tf.autograd.report import watchers

    def keep(report: Any, passed: bool) -> None:
        line = [report.title, report.verdict, passed, report.worst_error, report.evaluations, report.diagnosis]
        item.user_properties.append((_KEY, line))

    watchers.append(keep)
    try:
        return (yield)
    finally:
        watchers.remove(keep)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Show a failed check as its report and the line of the test, without the frames inside the checker."""
    report = yield
    error = call.excinfo.value if call.excinfo is not None else None
    if report.failed and type(error).__name__ == "GradcheckError":
        assert call.excinfo is not None
        lines = [f"{e.path}:{e.lineno + 1}" for e in call.excinfo.traceback if str(e.path) == str(item.path)]
        where = f"{lines[-1]}: " if lines else ""
        report.longrepr = f"{where}{error}"
    return report


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if not config.getoption("--gradcheck-summary"):
        return
    rows = []
    for results in terminalreporter.stats.values():
        for result in results:
            when = getattr(result, "when", "")
            if when == "call" or (when == "setup" and result.failed):  # a call's have those of its setup, too
                found = [value for key, value in result.user_properties if key == _KEY]
                rows += [(result.nodeid, *value) for value in found]
    terminalreporter.section("gradient checks")
    if not rows:
        terminalreporter.write_line("none were made")
        return
    width = max(len(r[0]) for r in rows)
    terminalreporter.write_line(f"{'test':{width}}  {'check':14}  {'verdict':22}  worst error  evaluations")
    for test, title, verdict, passed, worst, evaluations, diagnosis in sorted(rows):
        mark = "" if passed else "  FAILED" + (f": {diagnosis[0]}" if diagnosis else "")
        terminalreporter.write_line(f"{test:{width}}  {title:14}  {verdict:22}  {worst:11.1e}  {evaluations:11d}{mark}")
