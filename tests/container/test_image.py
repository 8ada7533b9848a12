"""The image itself, built by buildah on a base that `.ci/image-base` has made or was pulled."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import httpx
import pytest

from app.cli.sockets import free_port
from tests.architecture.sources import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

BUILDAH: Final = ("buildah", "--storage-driver", "vfs")
BASE: Final = "docker.io/library/python:3.11-slim"
IMAGE: Final = "localhost/turngate:tested"
BUILD_S: Final = 900


def buildah(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*BUILDAH, *words], cwd=ROOT, capture_output=True, text=True, check=False, timeout=BUILD_S
    )


def has_base() -> bool:
    return shutil.which("buildah") is not None and buildah("inspect", BASE).returncode == 0


pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(BUILD_S),
    pytest.mark.skipif(not has_base(), reason=f"there is no buildah here, or no {BASE}"),
]


@pytest.fixture(scope="module")
def container() -> Iterator[str]:
    """A container of the image, built from this tree."""
    words = ("--pull-never", "--isolation", "chroot", "--network", "host", "--format", "docker")
    built = buildah("build", *words, "--tag", IMAGE, ".")
    assert built.returncode == 0, built.stdout[-2000:] + built.stderr[-2000:]
    name = buildah("from", "--pull-never", IMAGE).stdout.strip()
    yield name
    buildah("rm", name)


@contextmanager
def running(container: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A program in the container, until the block ends."""
    command = [*BUILDAH, "run", "--isolation", "chroot", container, "--", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


def test_the_image_serves_as_nobody_in_particular(container: str) -> None:
    """Its own database included, which does not run as root."""
    image: dict[str, Any] = json.loads(buildah("inspect", "--type", "image", IMAGE).stdout)
    config = image["Docker"]["config"]
    assert config["User"] == "turngate"
    assert config["StopSignal"] == "SIGTERM"
    assert "/healthz" in " ".join(config["Healthcheck"]["Test"])

    port = free_port("127.0.0.1", 8000)
    with running(container, *config["Cmd"], "--port", str(port)) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("Turngate serves on ")
        answer = httpx.get(f"http://127.0.0.1:{port}/healthz", trust_env=False)
        assert answer.json() == {"status": "ok"}
        check = [word.replace(":8000/", f":{port}/") for word in config["Healthcheck"]["Test"][1:]]
        with running(container, *check) as checked:
            assert checked.wait(60) == 0
        with running(container, "id", "-u") as asked:
            assert asked.communicate(timeout=60)[0].strip() == "10001"
