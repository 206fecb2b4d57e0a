"""A PD decode server: requests leave the prealloc queue in FIFO order until the first that does not fit."""

from __future__ import annotations

from dataclasses import dataclass, field

from .pages import PagePool, ceil_page, swa_tail


@dataclass
class _Request:
    prompt: int
    future: int  # min(max_new, clip)
    tail: int  # sliding-window slots
    running: bool = False
    generated: int = 0
    pages: list[int] = field(default_factory=list)
    swa_pages: list[int] = field(default_factory=list)


@dataclass
class _Server:
    full: PagePool
    swa: PagePool | None
    slots: int
    reserved: int
    active: list[_Request] = field(default_factory=list)

    @property
    def running(self) -> list[_Request]:
        return [request for request in self.active if request.running]

    def retractable(self) -> int:
        return sum(request.prompt + request.generated for request in self.running)

    def need_single(self) -> int:
        retractable = self.retractable()
        return max((request.prompt + request.future - retractable for request in self.running), default=0)

    def allocatable(self) -> int:
        return self.full.free - max(self.reserved * len(self.active), self.need_single())

    def required(self, candidate: _Request) -> int:
        at_once = ceil_page(candidate.prompt, self.full.page) + self.reserved
        at_its_end = candidate.prompt + candidate.future - self.retractable()
        return max(at_once, at_its_end)

    def fits(self, candidate: _Request) -> bool:
        if len(self.active) >= self.slots:  # rule 2
            return False
        if self.required(candidate) > self.allocatable():  # rule 5
            return False
        return self.swa is None or self.swa.page == 1 or candidate.tail <= self.swa.free  # rule 6: only with page > 1

    def admit(self, candidate: _Request, started: bool) -> None:
        candidate.pages = self.full.take(candidate.prompt + candidate.generated)
        if self.swa is not None and self.swa.page > 1:
            candidate.swa_pages = self.swa.take(candidate.tail)
        candidate.running = started
        self.active.append(candidate)


def admitted(
    *,
    pool: int,
    page: int,
    prompt: int,
    max_new: int,
    reserved: int = 512,
    clip: int = 4096,
    max_running: int,
    extra_slots: int = 0,
    swa_pool: int | None = None,
    window: int = 0,
    draft: int = 0,  # noqa: ARG001
    started: bool = True,
    generated: int = 0,
) -> int:
    """How many identical requests are in together when each has generated so much before the next is looked at.

    `started`: an admitted request runs before the next candidate is looked at; otherwise all stay in transfer.
    `draft` changes nothing: no admission rule speaks of it.
    """
    tail = swa_tail(prompt, window, page)
    if prompt > pool or (swa_pool is not None and tail > swa_pool):
        return 0  # refused at once
    swa = None if swa_pool is None else PagePool(swa_pool, page)
    server = _Server(PagePool(pool, page), swa, max_running + extra_slots, reserved)
    while True:
        candidate = _Request(prompt, min(max_new, clip), tail)
        if not server.fits(candidate):
            return len(server.active)
        candidate.generated = generated if started else 0
        if ceil_page(prompt + candidate.generated, page) > server.full.free:
            return len(server.active) + 1  # in, but the pool is too small for what it generates
        server.admit(candidate, started)
