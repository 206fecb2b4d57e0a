"""Forward passes: tokens in, the next token of each sequence out, and whether it has ended with that."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from .figures import Counters
from .kv_pool import KvPool
from .model.forward import Step
from .model.load import Loaded
from .pace import Clock
from .request import Finish
from .request_table import RequestTable
from .sampling import next_token
from .sequence import Piece, Sequence


class Runner:
    """Owns the model. Sequences come with their pages; which ones run together is others' business."""

    def __init__(self, loaded: Loaded, pool: KvPool, table: RequestTable, clock: Clock, counters: Counters) -> None:
        self._model = loaded.model
        self._eos = loaded.tokenizer.eos_ids
        self._pool = pool
        self._table = table
        self._clock = clock
        self._counters = counters

    def prefill(self, pieces: list[Piece]) -> list[Sequence]:
        """Computes pieces of prompts. Returns the sequences whose last token was among them: they got their next."""
        self._clock.start(sum(piece.tokens for piece in pieces), 0)
        logits = self._forward(pieces)
        self._clock.finish()
        return self._sample(pieces, logits)

    def decode(self, running: list[Sequence]) -> None:
        """One more token for each."""
        self._clock.start(0, 1)
        pieces = [Piece(sequence, 1) for sequence in running]
        logits = self._forward(pieces)
        self._clock.finish()
        self._sample(pieces, logits)

    def accept(self, sequence: Sequence, token: int) -> None:
        """A token joins a sequence: text, end, and whoever listens."""
        sequence.output_ids.append(token)
        sequence.times.token(time.monotonic())
        self._counters.generation_tokens += 1
        if self._ends(sequence, token):
            sequence.finish = Finish("stop", token)
            text, stop = sequence.text.flush()
        else:
            text, stop = sequence.text.add(token)
            if stop is None and sequence.remaining <= 0:
                sequence.finish = Finish("length")
                rest, stop = sequence.text.flush()
                text += rest
        if stop is not None:
            sequence.finish = Finish("stop", stop)
        sequence.tell((token,), text)

    def _ends(self, sequence: Sequence, token: int) -> bool:
        sampling = sequence.sampling
        return token in sampling.stop_token_ids or (token in self._eos and not sampling.ignore_eos)

    def _sample(self, pieces: list[Piece], logits: NDArray[np.float32]) -> list[Sequence]:
        done = []
        for piece, row in zip(pieces, logits, strict=True):
            sequence = piece.sequence
            if not sequence.uncomputed:
                self.accept(sequence, next_token(row, sequence.sampling, sequence.length))
                done.append(sequence)
        return done

    def _forward(self, pieces: list[Piece]) -> NDArray[np.float32]:
        step = self._step(pieces)
        for sequence, count in pieces:
            sequence.computed += count
        return self._model.forward(step, self._pool.kv)

    def _step(self, pieces: list[Piece]) -> Step:
        spans = [(s, s.computed, s.computed + count) for s, count in pieces]
        return Step(
            token_ids=np.concatenate([np.asarray(_tokens(s, a, b), dtype=np.int64) for s, a, b in spans]),
            positions=np.concatenate([np.arange(a, b, dtype=np.int64) for _, a, b in spans]),
            slots=np.concatenate([self._pool.slots(s, a, b) for s, a, b in spans]),
            starts=np.cumsum([0, *(b - a for _, a, b in spans)]).astype(np.int32),
            page_tables=self._table.lookup([s for s, _, _ in spans]),
            page_size=self._pool.page_size,
        )


def _tokens(sequence: Sequence, start: int, stop: int) -> list[int]:
    """Without a copy of the whole where only the last token is asked for."""
    prompt = len(sequence.prompt_ids)
    if start >= prompt:
        return sequence.output_ids[start - prompt : stop - prompt]
    return sequence.ids[start:stop]
