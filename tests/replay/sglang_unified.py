"""An aggregated server: the candidate is counted in full, the running ones at the new-token ratio."""

from __future__ import annotations

from dataclasses import dataclass, field

from .pages import PagePool, ceil_page, swa_tail


@dataclass
class _Request:
    uncached: int
    future: int  # min(max_new, clip)
    tail: int  # sliding-window slots
    generated: int = 0
    pages: list[int] = field(default_factory=list)
    swa_pages: list[int] = field(default_factory=list)
    states: list[int] = field(default_factory=list)


@dataclass
class _Pass:
    """What one scheduling pass has charged so far. Memory is taken only when the pass is over."""

    tokens: int = 0
    swa: int = 0
    states: int = 0
    admitted: list[_Request] = field(default_factory=list)


@dataclass
class _Server:
    max_new: int
    clip: int
    full: PagePool
    swa: PagePool | None
    free_states: list[int] | None
    prompt: int
    future: int
    tail: int
    ratio: float
    max_running: int
    slots_per_request: int
    shared: int
    cached: bool = False
    cache_pages: list[int] = field(default_factory=list)
    running: list[_Request] = field(default_factory=list)

    def candidate(self) -> _Request:
        return _Request(self.prompt - self.shared if self.cached else self.prompt, self.future, self.tail)

    def remaining(self, this_pass: _Pass) -> float:
        left = [min(self.max_new - request.generated, self.clip) for request in self.running]
        reserve = sum(self.ratio * tokens for tokens in left)
        return self.full.free - reserve - this_pass.tokens

    def fits(self, candidate: _Request, this_pass: _Pass) -> bool:
        if len(self.running) + len(this_pass.admitted) >= self.max_running:
            return False
        needed = candidate.uncached + candidate.future + self.full.page
        return (
            needed < self.remaining(this_pass) and self.fits_swa(candidate, this_pass) and self.fits_states(this_pass)
        )

    def fits_swa(self, candidate: _Request, this_pass: _Pass) -> bool:
        return self.swa is None or candidate.tail <= self.swa.free - this_pass.swa

    def fits_states(self, this_pass: _Pass) -> bool:
        return self.free_states is None or self.slots_per_request <= len(self.free_states) - this_pass.states

    def charge(self, candidate: _Request, this_pass: _Pass) -> None:
        this_pass.tokens += ceil_page(candidate.uncached, self.full.page) + candidate.future + self.full.page
        this_pass.swa += candidate.tail
        this_pass.states += self.slots_per_request
        this_pass.admitted.append(candidate)
        self.cached = True

    def run(self, this_pass: _Pass) -> None:
        """The pass is over: its requests take their memory and run."""
        for request in this_pass.admitted:
            self.take(request)
            self.running.append(request)

    def take(self, request: _Request) -> None:
        if request.uncached == self.prompt:  # nothing was cached for it: the cache keeps its prefix
            self.cache_pages += self.full.take(self.shared)
            request.pages = self.full.take(request.uncached - self.shared)
        else:
            request.pages = self.full.take(request.uncached)
        if self.swa is not None:
            request.swa_pages = self.swa.take(request.tail)
        if self.free_states is not None:
            request.states = [self.free_states.pop() for _ in range(self.slots_per_request)]


def _server(
    *,
    pool: int,
    page: int,
    prompt: int,
    max_new: int,
    ratio: float,
    clip: int,
    max_running: int,
    state_slots: int | None,
    slots_per_request: int,
    swa_pool: int | None,
    window: int,
    shared: int,
) -> _Server:
    if shared % page or shared > prompt:
        raise ValueError("the shared prefix is whole pages of the prompt")
    return _Server(
        max_new=max_new,
        clip=clip,
        full=PagePool(pool, page),
        swa=None if swa_pool is None else PagePool(swa_pool, page),
        free_states=None if state_slots is None else list(range(state_slots)),
        prompt=prompt,
        future=min(max_new, clip),
        tail=swa_tail(prompt, window, page),
        ratio=ratio,
        max_running=max_running,
        slots_per_request=slots_per_request,
        shared=shared,
    )


def admitted(
    *,
    pool: int,
    page: int,
    prompt: int,
    max_new: int,
    ratio: float,
    clip: int = 4096,
    max_running: int,
    state_slots: int | None = None,
    slots_per_request: int = 1,
    swa_pool: int | None = None,
    window: int = 0,
    shared: int = 0,
    generated: int = 0,
) -> int:
    """How many run when each scheduling pass sees one candidate, and each that runs has generated so much by then,
    within the page that it holds.
    """
    server = _server(
        pool=pool,
        page=page,
        prompt=prompt,
        max_new=max_new,
        ratio=ratio,
        clip=clip,
        max_running=max_running,
        state_slots=state_slots,
        slots_per_request=slots_per_request,
        swa_pool=swa_pool,
        window=window,
        shared=shared,
    )
    while True:
        this_pass = _Pass()
        candidate = server.candidate()
        if not server.fits(candidate, this_pass):
            return len(server.running)
        server.charge(candidate, this_pass)
        server.run(this_pass)
        candidate.generated = generated


def burst(
    *,
    pool: int,
    page: int,
    prompt: int,
    max_new: int,
    ratio: float,
    clip: int = 4096,
    max_running: int,
    state_slots: int | None = None,
    slots_per_request: int = 1,
    swa_pool: int | None = None,
    window: int = 0,
    shared: int = 0,
) -> int:
    """How many an idle server lets in during one scheduling pass. `ratio` changes nothing: none ran before it."""
    server = _server(
        pool=pool,
        page=page,
        prompt=prompt,
        max_new=max_new,
        ratio=ratio,
        clip=clip,
        max_running=max_running,
        state_slots=state_slots,
        slots_per_request=slots_per_request,
        swa_pool=swa_pool,
        window=window,
        shared=shared,
    )
    this_pass = _Pass()
    while True:
        candidate = server.candidate()
        if not server.fits(candidate, this_pass):
            break
        server.charge(candidate, this_pass)
    server.run(this_pass)
    return len(server.running)
