"""Which container a process is in: its control group bears the container's id."""

from __future__ import annotations

import re
from typing import NamedTuple

_ID = r"(?P<id>[0-9a-f]{64})"
_DOCKER = re.compile(rf"docker-{_ID}\.scope|{_ID.replace('id', 'bare')}")
_PODMAN = re.compile(rf"libpod-(?:payload-)?{_ID}(?:\.scope)?")
_KUBERNETES = re.compile(r"kubepods\b.*|(?:cri-containerd|crio)-.*")
_NOT_DOCKER = ("default", "k8s.io", "moby")  # namespaces of containerd, whose own containers stand below them
_USER = re.compile(r"user@([0-9]{1,10})\.service")


class ContainerRef(NamedTuple):
    runtime: str  # "docker", "podman": the program that knows it
    id: str  # 64 hexadecimal digits
    uid: int | None = None  # of the user whose container it is; None: the system's, root's

    def __str__(self) -> str:
        return f"{self.runtime} {self.id[:12]}"


def container_of(cgroup: str) -> ContainerRef | None:
    """Of containers in containers the outermost: only that one is known to this host. None in Kubernetes too."""
    parts = cgroup.split("/")
    if any(_KUBERNETES.fullmatch(part) for part in parts):
        return None
    uid: int | None = None
    for before, part in zip(["", *parts], parts, strict=False):
        user = _USER.fullmatch(part)
        uid = int(user[1]) or None if user else uid
        podman = _PODMAN.fullmatch(part)
        if podman:
            return ContainerRef("podman", podman["id"], uid)
        docker = _DOCKER.fullmatch(part)
        if docker and (docker["id"] or before not in _NOT_DOCKER):
            return ContainerRef("docker", docker["id"] or docker["bare"], uid)
    return None


def remark_of(cgroup: str) -> str:
    """Why a process in a container has no ContainerRef, "" of any other."""
    kubernetes = any(_KUBERNETES.fullmatch(part) for part in cgroup.split("/"))
    return "it runs in a Kubernetes pod, which is out of scope" if kubernetes else ""
