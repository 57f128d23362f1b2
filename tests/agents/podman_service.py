"""A Podman of the tests' own: its folders, its socket, an image made of busybox, nothing from a registry."""

import os
import shutil
import subprocess
import time
from pathlib import Path

IMAGE = "localhost/berth-test:1"
_APPLETS = ("sh", "ls", "sleep", "echo", "cat", "env", "id", "touch", "yes", "kill")
_CONF = """
[containers]
default_ulimits=["nofile=1024:1024","nproc=1024:1024"]
log_driver="k8s-file"
[network]
network_backend="netavark"
[engine]
runtime="runc"
cgroup_manager="cgroupfs"
events_logger="file"
"""


class PodmanMissing(Exception):
    """Why Podman cannot run containers here."""


class PodmanService:
    def __init__(self, folder: Path) -> None:
        for program in ("podman", "runc", "busybox"):
            if shutil.which(program) is None:
                raise PodmanMissing(f"{program} is not installed")
        if os.geteuid() != 0:
            raise PodmanMissing("the tests write to /etc/cdi, which only root may")
        self._folder = folder
        self._socket = folder / "podman.sock"
        self.url = f"unix://{self._socket}"
        conf = folder / "containers.conf"
        conf.write_text(_CONF)
        self._environment = {**os.environ, "CONTAINERS_CONF": str(conf)}
        self._import_image()
        if "berth" not in self.podman("run", "--rm", "--network", "none", IMAGE, "/bin/echo", "berth"):
            raise PodmanMissing("a container does not start")
        self._service = subprocess.Popen(
            [*self._command(), "system", "service", "--time=0", self.url], env=self._environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        give_up_at = time.monotonic() + 20
        while not self._socket.exists():
            if time.monotonic() > give_up_at:
                raise PodmanMissing("the Podman service does not open its socket")
            time.sleep(0.05)

    def podman(self, *arguments: str) -> str:
        done = subprocess.run([*self._command(), *arguments], env=self._environment, capture_output=True, timeout=60)
        if done.returncode:
            raise PodmanMissing(done.stderr.decode(errors="replace").strip()[-300:])
        return done.stdout.decode(errors="replace")

    def stop(self) -> None:
        self.podman("rm", "--all", "--force", "--time", "0")
        self._service.terminate()
        self._service.wait(10)

    def _command(self) -> list[str]:
        parts = {"root": "root", "runroot": "run", "tmpdir": "tmp"}
        return ["podman", *(f"--{option}={self._folder / name}" for option, name in parts.items())]

    def _import_image(self) -> None:
        rootfs = self._folder / "rootfs"
        for name in ("bin", "dev", "proc", "sys", "tmp", "etc"):
            (rootfs / name).mkdir(parents=True)
        shutil.copy(shutil.which("busybox") or "", rootfs / "bin" / "busybox")
        for applet in _APPLETS:
            (rootfs / "bin" / applet).symlink_to("busybox")
        archive = self._folder / "image.tar"
        subprocess.run(["tar", "-C", str(rootfs), "-cf", str(archive), "."], check=True, timeout=60)
        self.podman("import", str(archive), IMAGE)
