"""Builds an ONNX graph of a table's model, for runtimes of other languages. This module needs the extra ``onnx``."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from .._core import __version__

OPSET = 17
"""Version of the ONNX operators. Runtimes since 2022 can read this version."""


def build_onnx_graph(model: Any) -> Any:
    """Returns a ``TableModel`` as an ``onnx.ModelProto``, which ``TableModel.to_onnx`` describes."""
    try:
        onnx: Any = import_module("onnx")
    except ImportError as error:
        raise ImportError(f"to_onnx needs pip install onnx: {error}") from None
    make, double, text = onnx.helper, onnx.TensorProto.DOUBLE, onnx.TensorProto.STRING
    weights, constants = model.coef.T, model.intercept
    if weights.shape[1] == 1:  # a single score belongs to the second class, and the first class has the score 0
        weights = np.column_stack([np.zeros_like(weights), weights])
        constants = np.append(0.0, constants)
    given = [
        onnx.numpy_helper.from_array(np.ascontiguousarray(weights), "weights"),
        onnx.numpy_helper.from_array(np.ascontiguousarray(constants), "constants"),
        make.make_tensor("labels", text, [len(model.classes)], [label.encode() for label in model.classes]),
    ]
    nodes = [
        make.make_node("MatMul", ["features", "weights"], ["products"]),
        make.make_node("Add", ["products", "constants"], ["scores"]),
        make.make_node("ArgMax", ["scores"], ["places"], axis=1, keepdims=0),
        make.make_node("Gather", ["labels", "places"], ["label"]),
    ]
    outputs = [make.make_tensor_value_info("label", text, ["records"])]
    if model.model == "logistic":
        nodes.append(make.make_node("Softmax", ["scores"], ["probabilities"], axis=1))
        outputs.append(make.make_tensor_value_info("probabilities", double, ["records", len(model.classes)]))
    inputs = [make.make_tensor_value_info("features", double, ["records", len(model.features)])]
    made = make.make_graph(nodes, "tightdp", inputs, outputs, given)
    whole = make.make_model(
        made, opset_imports=[make.make_opsetid("", OPSET)], producer_name="tightdp", producer_version=__version__
    )
    whole.ir_version = 8  # the version of the file format that belongs to OPSET
    onnx.checker.check_model(whole)
    return whole
