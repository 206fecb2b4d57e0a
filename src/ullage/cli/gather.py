"""Targets into evidence: what each word names, with which key it is read, and which workers follow."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timezone
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from ..engines.on_host import is_at
from ..engines.read import COMMANDS, ENDPOINTS, TELLING, log_markers, read
from ..engines.server import Role, Server
from ..errors import UsageError
from ..evidence import INTENDED, Argv, Evidence, Failure, Origin
from ..masking import Masker
from ..spec import Target, read_spec

if TYPE_CHECKING:
    from ..observe.http import Access
    from ..observe.log_file import LogScan

_METRICS_PORT = 29000  # the router's default of --prometheus-port
_HERE = "this host"
_DEEPEST = 3  # a router's worker can be a router


class Options(NamedTuple):
    """How targets are read. `key_envs`: "NAME" for all targets, "URL=NAME" for one. `metrics`: "URL" of the metrics
    page of the only server, "SERVER=URL" of one of several.
    """

    follow: bool = False
    key_envs: tuple[str, ...] = ()
    cacert: str | None = None
    insecure: bool = False
    timeout_s: float = 2.0
    metrics: tuple[str, ...] = ()
    prometheus: str | None = None
    match: tuple[str, ...] = ()
    history: bool = False  # of servers on this host: earlier starts too


def gather(targets: Sequence[str], flags: Sequence[str], options: Options) -> list[Evidence]:
    """All evidence of all targets. Raises UsageError for words that cannot be read as a target."""
    named = _with_pages([spec for target in _once(targets) for spec in _named(target, options)], options.metrics)
    keys = keys_of(named, options)
    masker = Masker([*keys.values(), *_passwords(named)])
    items = [item for target in named if not target.is_url for item in _read_file(target.where, masker)]
    items += [*_read_flags(flags, masker), *(_intended(target, masker) for target in named if target.flags)]
    items += _read_prometheus(keys, masker, options)
    urls = {target.where: target for target in named if target.is_url}
    return items + read_urls(urls, keys, masker, options, items) if urls else items


def collect(targets: Sequence[str], flags: Sequence[str], options: Options) -> list[Evidence]:
    """All evidence of what is named; of this host where nothing is. Raises UsageError for options that do not fit."""
    if bool(options.prometheus) != bool(options.match):
        raise UsageError(
            "--prometheus and --match go together", """--prometheus http://HOST:9090 --match '{job="sglang"}'"""
        )
    named = bool(targets or flags or options.prometheus)
    if options.history and named:
        raise UsageError("--history is of the servers on this host", "name no target; a log is read with its history")
    return gather(targets, flags, options) if named else gather_host(options)


def gather_host(options: Options) -> list[Evidence]:
    """All evidence of the servers on this host, or that there is none."""
    from .this_host import look_around

    if options.metrics:
        raise UsageError("--metrics is for targets that are named", "name the server too")
    keys = keys_of([], options)
    masker = Masker(keys.values())
    view = look_around(log_scan(), masker, history=options.history)
    urls = {url: _of_url(url, options)._replace(metrics=view.pages.get(url)) for url in view.urls}
    items = list(view.items)
    if not items:
        reason = f"none of its {view.processes_seen} processes is an LLM server"
        none = Failure("no server", reason, "name a target: ullage limits http://HOST:PORT, or a log file")
        return [Evidence(Origin(_HERE), _HERE, "", datetime.now(timezone.utc), none)]
    return items + (read_urls(urls, keys, masker, options, items, view.urls, view.topics) if urls else [])


def keys_of(named: Sequence[Target], options: Options) -> dict[str, str]:
    """Every key in use, by its variable. One for a URL that no target names may be for a worker: it need not be set."""
    wanted = {target.api_key_env for target in named} | {entry for entry in options.key_envs if "=" not in entry}
    perhaps = {entry.rpartition("=")[2] for entry in options.key_envs if "=" in entry}
    wanted |= {name for name in perhaps if name in os.environ}
    return {name: _key(name) for name in sorted(v for v in wanted if v is not None)}


def _read_prometheus(keys: Mapping[str, str], masker: Masker, options: Options) -> list[Evidence]:
    if options.prometheus is None:
        return []
    from ..observe.http import Access
    from ..observe.prometheus import read_prometheus

    named = _key_env(_normal(options.prometheus), options)
    access = Access(keys.get(named) if named else None, options.cacert, options.insecure, options.timeout_s)
    return read_prometheus(options.prometheus, options.match, access, masker)


def _with_pages(named: list[Target], metrics: Sequence[str]) -> list[Target]:
    """The servers, each with the metrics page that was named for it."""
    if not metrics:
        return named
    from ..observe.targets import metrics_page

    servers = list(dict.fromkeys(target.where for target in named if target.is_url))
    pages: dict[str, str] = {}
    for entry in metrics:
        server, equals, page = entry.rpartition("=")
        where = _normal(server) if equals else servers[0] if len(servers) == 1 else ""
        if where not in servers or where in pages:
            whose = "--metrics SERVER=URL, with a SERVER that is a target, and one page for each"
            raise UsageError("--metrics does not tell whose page it is", whose)
        pages[where] = metrics_page(page)
    return [target._replace(metrics=pages.get(target.where, target.metrics)) for target in named]


def _once(targets: Sequence[str]) -> list[str]:
    """The same file under two names is one piece of evidence."""
    return list({os.path.realpath(t) if os.path.exists(t) else t: t for t in reversed(targets)}.values())[::-1]


def _read_flags(flags: Sequence[str], masker: Masker) -> list[Evidence]:
    """Command lines as evidence, each an item of its own."""
    if not flags:
        return []
    from ..observe.files import argv_of

    items = [argv_of(text, masker) for text in flags]
    names = ["--flags", *(f"--flags {n}" for n in range(2, len(items) + 1))]
    return [item._replace(origin=item.origin._replace(target=name)) for item, name in zip(items, names, strict=True)]


def _intended(target: Target, masker: Masker) -> Evidence:
    """What an ullage.toml says the target is to run with."""
    from ..observe.files import argv_of

    try:
        item = argv_of(target.flags, masker)
    except UsageError as error:
        raise UsageError(f"{masker.text(target.stated)}: flags: {error.message}", error.advice) from None
    if isinstance(item.content, Argv) and not any(word.startswith("-") for word in item.content.words):
        what = f"{masker.text(target.stated)}: flags names no flag"
        raise UsageError(what, 'write flags = "--context-length 131072"')
    origin = Origin(masker.text(target.where).rstrip(":"))
    return item._replace(origin=origin, place=masker.text(target.stated), topic=INTENDED)


def _named(target: str, options: Options) -> list[Target]:
    """A file that exists, a spec, or a URL. A word without a scheme is a URL when it looks like host:port and no file
    has that name.
    """
    if target == "-":
        return [Target(target, is_url=False)]
    if os.path.exists(target) and not target.endswith(".toml"):
        return [_of_socket(target, options) or Target(target, is_url=False)]
    if target.endswith(".toml"):
        return read_spec(target)
    if "://" not in target and not _looks_like_address(target):
        from ..observe.targets import shown

        raise UsageError(f"{shown(target)}: no such file, and not a URL", "write http://HOST:PORT for a server")
    from ..observe.targets import normalise

    return [_of_url(normalise(target), options)]


def _of_url(url: str, options: Options) -> Target:
    return Target(url, True, _key_env(url, options), options.cacert, options.insecure)


def _of_socket(path: str, options: Options) -> Target | None:
    """The server on the Unix socket at this path; None for a file."""
    if os.path.isfile(path):
        return None
    from ..observe.targets import is_socket, on_socket

    return _of_url(on_socket(path), options) if is_socket(path) else None


def _looks_like_address(target: str) -> bool:
    """host:port, localhost, an IPv6 address, or unix:/PATH."""
    host, colon, rest = target.partition(":")
    has_port = bool(colon and host and rest.split("/")[0].isdigit())
    return has_port or host == "localhost" or ":" in rest or target.startswith(("[", "unix:/"))


def _key_env(url: str, options: Options) -> str | None:
    for entry in options.key_envs:
        where, equals, name = entry.rpartition("=")
        if equals and _lies_under(url, _normal(where)):
            return name
    return next((entry for entry in options.key_envs if "=" not in entry), None)


def _normal(url: str) -> str:
    """As targets are named: localhost:30000 is http://localhost:30000."""
    from ..observe.targets import normalise

    return normalise(url)


def _lies_under(url: str, where: str) -> bool:
    """Not by the letters alone: http://a:3000 is not http://a:30000."""
    base = where.rstrip("/")
    return url == base or url.startswith(f"{base}/")


def _passwords(targets: Sequence[Target]) -> list[str]:
    every = [url for target in targets if target.is_url for url in (target.where, target.metrics or "")]
    urls = [url for url in every if "@" in url]
    if not urls:
        return []
    from ..observe.targets import passwords

    return [password for url in urls for password in passwords(url)]


def _key(name: str) -> str:
    if not name.replace("_", "").isalnum():
        raise UsageError(
            "--api-key-env takes the name of an environment variable, not a key",
            "export KEY=..., then --api-key-env KEY",
        )
    key = os.environ.get(name, "")
    if not key:
        told = name if name.isupper() else "that was named"  # a key may stand there by mistake
        raise UsageError(f"the environment variable {told} is not set", "export it first")
    return key


def _read_file(path: str, masker: Masker) -> list[Evidence]:
    from ..observe.files import read_file

    return read_file(path, log_scan(), masker, re.compile(COMMANDS))


def log_scan() -> LogScan:
    """What the readers of logs look for."""
    from ..observe.log_choice import LogWords
    from ..observe.log_file import LogScan

    return LogScan(tuple(LogWords(*markers) for markers in log_markers()))


def read_urls(
    urls: dict[str, Target],
    keys: dict[str, str],
    masker: Masker,
    options: Options,
    others: list[Evidence],
    owners: Mapping[str, Origin] = MappingProxyType({}),
    known: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> list[Evidence]:
    """The endpoints of all URLs; with --follow those of the workers that routers name too, wave by wave. Of servers on
    this host, by URL, `owners`: whose evidence its answers are; `known`: the topics that are asked.
    """
    from ..observe.endpoints import Endpoint, read_servers

    endpoints = [Endpoint(*row) for row in ENDPOINTS]
    access_for = _access(urls, keys, options)
    pages = {url: target.metrics for url, target in urls.items() if target.metrics}
    found = read_servers(list(urls), endpoints, access_for, masker, pages, TELLING, known)
    by_name = {url.rstrip(":"): origin for url, origin in owners.items()}  # as a socket's URL stands in evidence
    items = [item._replace(origin=by_name.get(item.origin.target, item.origin)) for item in found]
    asked = set(urls)
    for _ in range(_DEEPEST if options.follow else 0):
        servers = read([*items, *others])[0]
        routers = [s for s in servers if s.role is Role.ROUTER]
        further = [url for router in routers for url in _beyond(router, pages) if url not in asked]
        further = [url for url in further if not any(s.host and is_at(s, url) for s in servers)]
        if not further:
            break
        asked.update(further)
        items += read_servers(further, endpoints, access_for, masker, telling=TELLING)
    return items


def _access(urls: dict[str, Target], keys: dict[str, str], options: Options) -> Callable[[str], Access]:
    """How a URL is reached: as its target says. One that a router named gets only a key that was given for all; so does
    a metrics page on another host.
    """
    from ..observe.http import Access

    def access_for(url: str) -> Access:
        target = next((t for t in urls.values() if t.metrics == url), None)
        keyed = target is not None and _host(target.where) == _host(url)
        if target is None:
            target = next((t for where, t in urls.items() if _lies_under(url, where)), None)
            keyed = target is not None
        named = target.api_key_env if target and keyed else _key_env(url, options)
        return Access(
            api_key=keys.get(named) if named else None,
            cacert=(target and target.cacert) or options.cacert,
            insecure=bool(target and target.insecure) or options.insecure,
            timeout_s=options.timeout_s,
        )

    return access_for


def _beyond(router: Server, pages: Mapping[str, str]) -> list[str]:
    """A router's workers, and its metrics page, which has a port of its own (none where its flags do not set one). Not
    where that page was named: `pages`.
    """
    workers = [worker.rstrip("/") for worker in router.workers if worker.startswith("http")]
    port = router.figure("prometheus_port")
    known = (
        router.host is not None or router.name in pages or (not port.known and router.figure("retry_max_retries").known)
    )
    if known or router.engine == "llama.cpp" or not router.name.startswith("http"):
        return workers
    return [*workers, f"http://{_host(router.name)}:{port.value or _METRICS_PORT}/metrics"]


def _host(url: str) -> str:
    """The host of a URL, in its brackets where it is an IPv6 address; a Unix socket is on this one."""
    host = url.split("://", 1)[1].split("/", 1)[0].rsplit("@", 1)[-1]
    if host == "unix:":
        return "localhost"
    return host if host.endswith("]") or ":" not in host else host.rsplit(":", 1)[0]
