"""vLLM's door, request by request: a candidate asks for free blocks, takes them, and gives back what its windows leave.

As v1/core/sched/scheduler.py and kv_cache_manager.allocate_slots do it. Requests of one shape come in one after another
and have generated nothing; `crowded` keeps all of them in their prefill, with a whole batch in flight each.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Group:
    """Layers that share blocks of `block` tokens. `window` 0: full attention. `states`: blocks whatever the length."""

    block: int = 16
    window: int = 0
    states: int = 0

    def asks(self, tokens: int, in_flight: int) -> int:
        """Blocks that must be free for so many tokens (max_admission_blocks_per_request)."""
        if self.states:
            return self.states
        if not self.window:
            return -(-tokens // self.block)
        return -(-min(self.window - 1 + in_flight, tokens) // self.block) + 1

    def keeps(self, tokens: int) -> int:
        """Blocks that stay once the prompt is computed and the next token is due: those that its window still reaches
        (remove_skipped_blocks).
        """
        if self.states:
            return self.states
        first = max(0, tokens - self.window + 1) // self.block if self.window else 0
        return -(-(tokens + 1) // self.block) - first


@dataclass
class Server:
    """The blocks of one engine, and who holds them."""

    blocks: int
    groups: tuple[Group, ...]
    in_flight: int
    watermark: int = 0
    chunk: int | None = None  # only the first chunk must fit, as before 0.19
    held: list[int] = field(default_factory=list)

    @property
    def free(self) -> int:
        return self.blocks - sum(self.held)

    def enters(self, prompt: int) -> bool:
        asked = min(prompt, self.chunk) if self.chunk else prompt
        kept = self.watermark if self.held else 0
        return self.free - kept >= self._asks(asked)

    def admit(self, prompt: int, *, crowded: bool) -> None:
        self.held.append(self._asks(prompt) if crowded else sum(group.keeps(prompt - 1) for group in self.groups))

    def _asks(self, tokens: int) -> int:
        return sum(group.asks(tokens, self.in_flight) for group in self.groups)


def admitted(server: Server, prompt: int, *, crowded: bool) -> int:
    """How many enter before one is turned away."""
    while server.enters(prompt):
        server.admit(prompt, crowded=crowded)
    return len(server.held)
