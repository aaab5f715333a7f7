"""What holds for every test: the user's own data folder is neither read nor written."""

import os
import signal
from collections.abc import Iterator

import pytest

# A thread that torch left behind may say late that nobody answers, amid another test's output.
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")  # read at torch's import

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts what it puts in the background like this, and tests of Ctrl-C would wait.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def _no_user_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep fixtures that outlive a test away from the user's profiles."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPLACE_HOME", str(tmp_path_factory.getbasetemp() / "no-home"))
        yield


@pytest.fixture(autouse=True)
def _own_user_folder(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """Give each test a data folder of its own, which does not exist until it is written to."""
    name = f"home-{abs(hash(request.node.nodeid))}"
    monkeypatch.setenv("DPLACE_HOME", str(tmp_path_factory.getbasetemp() / name))
