"""What the tank's --mem-fraction-static would buy: SGLang's identity, on bytes that are exact."""

from __future__ import annotations

from collections.abc import Mapping

from ...capacity.ledger import Ledger
from ...capacity.ledger_sums import less
from ...capacity.ledger_tap import OnTap
from ...figure import Figure
from ..server import Server
from ..sglang.on_tap import LEVER, predicted_from
from ..sglang.on_tap_identity import Identity

_NAMES = ("memory_bytes", "mem_fraction_static", "max_total_num_tokens", "kv_bytes_per_token", "weight_bytes")


def on_tap(server: Server, ledgers: list[Ledger], margin: int) -> OnTap:
    figures = {name: server.figure(name) for name in _NAMES}
    lost = [name for name, figure in figures.items() if not figure.known]
    if lost:
        return OnTap(LEVER, unknown=f"the tank's /server_info does not state {', '.join(lost)}")
    return predicted_from(_identity(server, figures), ledgers, margin)


def _identity(server: Server, figures: Mapping[str, Figure]) -> Identity:
    before, fraction, pool, token, weights = (figures[name] for name in _NAMES)
    page = server.figure("page_size")
    after = less("free_after_weights", before, [weights], "memory - weights")
    return Identity(before, after, fraction, pool, token, 1.0, page.count if type(page.value) is int else 1)
