"""All children of a tank: started, watched, started again when they die, ended in order."""

from __future__ import annotations

import time
from collections.abc import Iterable

from ...errors import UllageError
from .child import Child
from .plan import ROUTER, Part, Wish, reach
from .process import end, myself
from .signals import Signals
from .state import SERVING, STARTING, Place, Running, State, remove_state, write_state
from .tell import Teller

ROUTER_GRACE_S, WORKER_GRACE_S = 3.0, 5.0


class Supervisor:
    def __init__(self, wish: Wish, key: str | None, place: Place, teller: Teller, signals: Signals) -> None:
        self.wish = wish
        self.children: list[Child] = []
        self.phase = STARTING
        self.model = wish.model
        self._key = key
        self._began = time.time()
        self._place = place
        self._teller = teller
        self._signals = signals

    @property
    def state(self) -> State:
        wish, began = self.wish, tuple(child.running for child in self.children if child.restarts >= 0)
        metrics = reach(wish.host, wish.metrics_port) + "/metrics"
        url = reach(wish.host, wish.port)
        return State(self.phase, self._began, url, metrics, self.model, wish.key_env, myself(), began)

    @property
    def all_ready(self) -> bool:
        return all(child.ready for child in self.children)

    def write_down(self) -> None:
        write_state(self._place, self.state)

    def start(self, parts: Iterable[Part]) -> list[Child]:
        children = [Child(part, self._place.logs / f"{part.name}.log", self._key) for part in parts]
        for child in children:
            self.children.append(child)
            child.start(self.write_down)
        return children

    def drop(self, child: Child) -> None:
        self.children.remove(child)

    def serves(self, model: str) -> None:
        self.model, self.phase = model, SERVING
        self.write_down()

    def watch(self) -> None:
        """One look at each. Until the tank serves, a death is the end of it all."""
        for child in self.children:
            if how := child.look():
                self._died(child, how)
            elif child.due is not None and time.monotonic() >= child.due:
                child.start(self.write_down)
            elif child.became_ready():
                self._tell(child, _readiness(child))

    def _died(self, child: Child, how: str) -> None:
        pid = child.running.pid
        if self.phase == STARTING:
            self._teller.say("\n".join(f"| {line}" for line in child.last_words()))
            raise UllageError(f"{child.part.name} ended while it started: {how}", f"its log: {child.log}")
        wait_s = child.put_off()
        self._tell(child, f"pid {pid} ended: {how}; started again in {wait_s:g} s")
        self.write_down()

    def _tell(self, child: Child, text: str) -> None:
        tell = self._teller.say if self.phase == STARTING else self._teller.event
        tell(f"{child.part.name:<9} {text}")

    def end(self) -> None:
        """The router first, so that nothing new arrives; then the workers; what is asked for once more is killed."""
        routers = [child for child in self.children if child.part.role == ROUTER]
        workers = [child for child in self.children if child.part.role != ROUTER]
        told = [*self._end(routers, ROUTER_GRACE_S), *self._end(workers, WORKER_GRACE_S)]
        if told:
            self._teller.say("ended: " + ", ".join(told))
        remove_state(self._place)

    def _end(self, children: list[Child], grace_s: float) -> list[str]:
        living = [child.running for child in children if child.due is None and child.look() is None]
        killed = end([part.identity for part in living], grace_s, self._signals.wait)
        for child in children:
            child.look()
        return ended_words(living, {who.pid for who in killed})


def ended_words(parts: Iterable[Running], killed: set[int]) -> list[str]:
    return [f"{part.name} (pid {part.pid}{', killed' if part.pid in killed else ''})" for part in parts]


def _readiness(child: Child) -> str:
    again = " again" if child.restarts else ""
    return f"ready{again} after {child.age_s:.1f} s (pid {child.running.pid})"
