"""A container that a server runs in, as docker or podman tells of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from ipaddress import ip_address
from types import MappingProxyType
from typing import Any, NamedTuple

from ...evidence import Document, Evidence, Failure, Origin
from ...masking import Masker
from ..log_file import LogScan
from .container_cli import ask, failure, late, not_ours, socket_of
from .container_ref import ContainerRef, container_of, remark_of

__all__ = ["Container", "ContainerRef", "container_of", "read_container", "read_container_log", "remark_of"]

_MOST = 4 * 2**20
_OF_INTEREST = re.compile(
    r"(?:SGLANG|SGL|VLLM|LLAMA|GGML|CUDA|NVIDIA|NCCL|HF|HUGGING_FACE|TORCH|PYTORCH|UCX|NIXL|MOONCAKE|OMP|ULLAGE)_\w+"
)
_SAME = "container:"
_ROTATING = ("local", "journald")
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,6})\d*)?(Z|[+-]\d\d:\d\d)", re.ASCII)

Address = tuple[str, int]


class Container(NamedTuple):
    ref: ContainerRef
    name: str
    image: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = MappingProxyType({})  # that bears on a server
    ports: Mapping[int, tuple[Address, ...]] = MappingProxyType({})  # by port inside: where this host publishes it
    addresses: tuple[str, ...] = ()  # of its own, in the networks of the runtime
    network: str = ""  # "host", "bridge", "container:ID", "none", or the name of a network
    log_driver: str = ""
    log_path: str = ""
    log_rotates: bool = False  # what it said at first may be gone
    pid: int | None = None
    started_at: datetime | None = None
    restarts: int | None = None
    remarks: tuple[str, ...] = ()

    def urls(self, listens: Sequence[Address], *, tls: bool = False) -> tuple[str, ...]:
        """How what listens inside is reached from here, best first: at the port that is published for it; at its own
        address, where only one port listens. On its loopback nobody reaches it.
        """
        scheme = "https" if tls else "http"
        if self.network == "host":
            return tuple(dict.fromkeys(f"{scheme}://{_host(host)}:{port}" for host, port in listens if port))
        open_ports = list(dict.fromkeys(port for host, port in listens if port and not _is_loopback(host)))
        published = [at for port in open_ports for at in self.ports.get(port, ())]
        if not published and len(open_ports) == 1:
            published = [(address, open_ports[0]) for address in self.addresses]
        return tuple(dict.fromkeys(f"{scheme}://{_host(host)}:{port}" for host, port in sorted(published, key=_rank)))


def read_container(ref: ContainerRef, masker: Masker, time_limit_s: float = 2.0) -> Container | Failure:
    """By its program; where that is missing, by Docker's socket."""
    refused = not_ours(ref)
    data = refused or _inspected(ref, masker, time_limit_s)
    if isinstance(data, Failure):
        return data
    try:
        found = _container(ref, data, masker)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        return Failure(
            "not understood", f"what {ref.runtime} tells of {ref} ({type(error).__name__})", "please report it"
        )
    return _with_network_of_other(found, masker, time_limit_s)


def read_container_log(
    ref: ContainerRef, scan: LogScan, masker: Masker, container: Container | None = None
) -> list[Evidence]:
    """What it wrote since it started: the begin and the end of it, both streams in the order of time."""
    from .container_log import read

    found = container or read_container(ref, masker)
    if isinstance(found, Failure):
        place = f"log of {ref}"
        return [Evidence(Origin(place), place, "", datetime.now(timezone.utc), found)]
    return read(found, scan, masker)


def _inspected(ref: ContainerRef, masker: Masker, time_limit_s: float) -> dict[str, Any] | Failure:
    printed = ask(ref, "inspect", "--type", "container", ref.id, time_limit_s=time_limit_s, most_bytes=_MOST)
    if isinstance(printed, Failure):
        return _by_socket(ref, masker, time_limit_s) if ref.runtime == "docker" else printed
    if printed.late:
        return late(ref, time_limit_s)
    if printed.code is None:
        return Failure("too large", f"{ref.runtime} tells more than {_MOST // 2**20} MiB of {ref}")
    if printed.code:
        said = printed.errors.decode("utf-8", "replace")
        return failure(ref, said, masker.text(said))
    try:
        [found] = json.loads(printed.output)
    except (ValueError, TypeError):
        return Failure("not json", f"{ref.runtime} inspect printed no JSON", f"{ref.runtime} inspect {ref.id[:12]}")
    return found if isinstance(found, dict) else Failure("not json", f"{ref.runtime} inspect printed no container")


def _by_socket(ref: ContainerRef, masker: Masker, time_limit_s: float) -> dict[str, Any] | Failure:
    from ..http import Access, get

    path = socket_of(ref).removeprefix("unix://")
    content = get(f"http://unix:{path}:/containers/{ref.id}/json", Access(timeout_s=time_limit_s), masker).content
    if isinstance(content, Document) and isinstance(content.data, dict):
        return content.data
    if not isinstance(content, Failure):
        return Failure("not json", "what listens on Docker's socket is no Docker")
    if content.status == "timeout":
        return late(ref, time_limit_s)
    known = {"unreachable": "permission denied", "refused": "connection refused", "404": "no such container"}
    return failure(ref, known.get(content.status, ""), content.reason)


def _container(ref: ContainerRef, data: Mapping[str, Any], masker: Masker) -> Container:
    config, host, state = (data.get(part) or {} for part in ("Config", "HostConfig", "State"))
    log = host.get("LogConfig") or {}
    settings = data.get("NetworkSettings") or {}
    network, driver = str(host.get("NetworkMode") or ""), str(log.get("Type") or "")
    ports = _ports(settings.get("Ports") or {})
    remarks = () if ports or network in ("host", "none") or network.startswith(_SAME) else ("it publishes no port",)
    return Container(
        ref,
        masker.text(str(data.get("Name") or "").lstrip("/")),
        masker.text(str(config.get("Image") or data.get("ImageName") or "")),
        masker.words(_command(data)),
        _environment(config.get("Env") or (), masker),
        ports,
        tuple(_addresses(settings)),
        network,
        driver,
        str(data.get("LogPath") or log.get("Path") or ""),
        driver in _ROTATING or "max-size" in (log.get("Config") or {}) or str(log.get("Size") or "0B") != "0B",
        state.get("Pid") or None,
        time_of(str(state.get("StartedAt") or "")),
        data.get("RestartCount"),
        remarks if state.get("Running", True) else (*remarks, "it does not run any more"),
    )


def _command(data: Mapping[str, Any]) -> list[str]:
    """Podman repeats a command of one word as its only argument."""
    path, arguments = str(data.get("Path") or ""), [str(word) for word in data.get("Args") or ()]
    return [path] if arguments == [path] else [path, *arguments]


def _environment(entries: Iterable[str], masker: Masker) -> dict[str, str]:
    pairs = (str(entry).partition("=") for entry in entries)
    return masker.environment({name: value for name, _, value in pairs if _OF_INTEREST.fullmatch(name)})


def _ports(published: Mapping[str, Any]) -> dict[int, tuple[Address, ...]]:
    """{"30000/tcp": [{"HostIp": "0.0.0.0", "HostPort": "8000"}], "9000/tcp": null}"""
    found: dict[int, tuple[Address, ...]] = {}
    for inside, places in published.items():
        port, _, protocol = inside.partition("/")
        if protocol == "tcp" and places:
            found[int(port)] = tuple((str(at.get("HostIp") or "0.0.0.0"), int(at["HostPort"])) for at in places)
    return found


def _addresses(settings: Mapping[str, Any]) -> Iterable[str]:
    networks = [settings, *(settings.get("Networks") or {}).values()]
    every = (network.get(kind) for kind in ("IPAddress", "GlobalIPv6Address") for network in networks)
    return dict.fromkeys(str(address) for address in every if address)


def _with_network_of_other(found: Container, masker: Masker, time_limit_s: float) -> Container:
    """A container in the network of another one is reached where that one is."""
    if not found.network.startswith(_SAME):
        return found
    data = _inspected(found.ref._replace(id=found.network.removeprefix(_SAME)), masker, time_limit_s)
    if isinstance(data, Failure):
        return found._replace(remarks=(*found.remarks, f"it is in the network of another container: {data.reason}"))
    other = _container(found.ref, data, masker)
    return found._replace(ports=other.ports, addresses=other.addresses)


def time_of(text: str) -> datetime | None:
    """None where it never was ("0001-01-01T00:00:00Z"). Docker has nanoseconds."""
    match = _TIME.fullmatch(text)
    if match is None or match[1].startswith("0001"):
        return None
    return datetime.fromisoformat(f"{match[1]}.{(match[2] or '0'):0<6}{match[3].replace('Z', '+00:00')}")


def _is_loopback(host: str) -> bool:
    return ip_address(host).is_loopback if host else False


def _host(host: str) -> str:
    here = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)
    return f"[{here}]" if ":" in here else here


def _rank(at: Address) -> tuple[bool, bool]:
    """IPv4 before IPv6, this host's loopback before its other addresses."""
    host = at[0]
    return ":" in host, not (host in ("0.0.0.0", "::") or _is_loopback(host))
