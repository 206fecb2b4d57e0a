"""The dense part of the model as ONNX graphs, cut where attention stands between them:

    entry            token vectors -> q, k, v of layer 0
    between layers   attention of layer l -> feed-forward of l -> q, k, v of l + 1
    exit             attention of the last layer -> its feed-forward -> logits

onnxruntime computes each row of a MatMul with constant weights on its own, in one fixed order. So what a token gets
does not depend on the tokens that are computed beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np
import onnxruntime
from onnx import ModelProto, TensorProto, helper
from onnx.onnx_pb import NodeProto

from .weights import Floats, Layer, Weights

_SPIN_US = "10"  # a thread waits so long for its next piece before it sleeps: bridges the gaps within a graph
_AS_ASKED = 1  # an arena grows by what is asked for, not to the next power of two
_OPSET, _IR = 23, 11


class Graphs(NamedTuple):
    entry: Graph
    between: list[Graph]
    exit: Graph

    @property
    def weight_bytes(self) -> int:
        return sum(graph.weight_bytes for graph in (self.entry, *self.between, self.exit))


class Graph:
    """One session. Its weights live in onnxruntime's own packed form, and nowhere else."""

    def __init__(self, plan: _Plan, threads: int) -> None:
        self.weight_bytes = sum(array.nbytes for array in plan.weights.values())
        self._inputs = plan.inputs
        self._session = onnxruntime.InferenceSession(
            plan.model().SerializeToString(), _options(plan, threads), providers=["CPUExecutionProvider"]
        )

    def __call__(self, *arrays: Floats) -> list[Floats]:
        results: list[Floats] = self._session.run(None, dict(zip(self._inputs, arrays, strict=True)))
        return results


def build(weights: Weights, threads: int) -> Graphs:
    last, *between, entry = (Graph(plan, threads) for plan in _plans(weights))
    return Graphs(entry, between[::-1], last)


def _options(plan: _Plan, threads: int) -> onnxruntime.SessionOptions:
    _share_scratch()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "1")
    options.add_session_config_entry("session.use_env_allocators", "1")
    options.add_session_config_entry("session.intra_op.spin_duration_us", _SPIN_US)
    values = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in plan.weights.values()]
    options.add_external_initializers(list(plan.weights), values)
    return options


@cache
def _share_scratch() -> None:
    """One arena for all sessions of this process. Of its own, each would keep what its largest pass ever took."""
    memory = onnxruntime.OrtMemoryInfo(
        "Cpu", onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, onnxruntime.OrtMemType.DEFAULT
    )
    sizes = {"max_mem": 0, "arena_extend_strategy": _AS_ASKED, "initial_chunk_size_bytes": 2**20}
    onnxruntime.create_and_register_allocator(
        memory, onnxruntime.OrtArenaCfg({**sizes, "max_dead_bytes_per_chunk": -1})
    )


def _plans(weights: Weights) -> Iterator[_Plan]:
    """From the last to the first: the head is the largest, and is made while least is in memory."""
    config = weights.config
    layer = weights.layer(config.layers - 1)
    plan = _Plan(config.norm_eps, "hidden", "attention")
    plan.feed_forward(layer)
    plan.norm("after", weights.final_norm(), "normed_after")
    plan.matmul("normed_after", weights.head(), "logits")
    plan.outputs = ["logits"]
    yield plan
    for index in range(config.layers - 2, -1, -1):
        plan = _Plan(config.norm_eps, "hidden", "attention")
        behind, layer = layer, weights.layer(index)
        plan.feed_forward(layer)
        plan.query_key_value("after", behind)
        plan.outputs = ["after", "qkv"]
        yield plan
    plan = _Plan(config.norm_eps, "hidden")
    plan.query_key_value("hidden", layer)
    plan.outputs = ["qkv"]
    yield plan


class _Plan:
    """A graph as it is written, node by node; its weights are handed over beside it, not within."""

    def __init__(self, epsilon: float, *inputs: str) -> None:
        self.inputs = inputs
        self.outputs: list[str] = []
        self.weights: dict[str, Floats] = {}
        self._nodes: list[NodeProto] = []
        self._epsilon = epsilon

    def query_key_value(self, hidden: str, layer: Layer) -> None:
        self.norm(hidden, layer.attention_norm, "attention_in")
        self.matmul("attention_in", layer.qkv, "qkv")

    def feed_forward(self, layer: Layer) -> None:
        """after = x + down(silu(gate(norm(x))) * up(norm(x))), x = hidden + out(attention)"""
        self.matmul("attention", layer.attention_out, "attended")
        self._node("Add", ["hidden", "attended"], "middle")
        self.norm("middle", layer.ffn_norm, "ffn_in")
        self.matmul("ffn_in", layer.gate, "gate")
        self.matmul("ffn_in", layer.up, "up")
        self._node("Sigmoid", ["gate"], "sigmoid")
        self._node("Mul", ["gate", "sigmoid"], "silu")
        self._node("Mul", ["silu", "up"], "gated")
        self.matmul("gated", layer.down, "ffn")
        self._node("Add", ["middle", "ffn"], "after")

    def norm(self, x: str, weight: Floats, result: str) -> None:
        node = helper.make_node("RMSNormalization", [x, self._weight(weight, result)], [result], epsilon=self._epsilon)
        self._nodes.append(node)

    def matmul(self, x: str, weight: Floats, result: str) -> None:
        self._node("MatMul", [x, self._weight(weight, result)], result)

    def model(self) -> ModelProto:
        graph = helper.make_graph(
            self._nodes,
            "part",
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in self.inputs],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in self.outputs],
            [_elsewhere(name, array) for name, array in self.weights.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR)

    def _weight(self, array: Floats, result: str) -> str:
        name = f"{result}_weight"
        self.weights[name] = np.ascontiguousarray(array, dtype=np.float32)
        return name

    def _node(self, kind: str, inputs: list[str], result: str) -> None:
        self._nodes.append(helper.make_node(kind, inputs, [result]))


def _elsewhere(name: str, array: Floats) -> TensorProto:
    """A weight by name and shape alone."""
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=array.shape)
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="memory")
    return tensor
