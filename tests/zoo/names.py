"""Names: none, equal, odd, and such as look like those a splitter would make up."""

import onnx

from tests.zoo.situation import Situation, calls, parse, weight

__all__ = ["SITUATIONS"]


def thirty_unnamed_nodes() -> Situation:
    """Thirty nodes in a chain, none of which has a name."""
    ops = ["Sin", "Cos", "Tanh", "Neg", "Abs"]
    lines = [f"v{i + 1} = {ops[i % len(ops)]}(v{i})" for i in range(30)]
    model = parse(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[N, 4] v0) => (float[N, 4] v30) {'
        + "\n".join(lines)
        + "}"
    )
    return Situation(model=model, feeds=calls({"v0": (2, 4)}), source="ort#24203, ort#3854")


def two_slice_split_patterns() -> Situation:
    """Slice then Split, twice, all unnamed: a pattern that onnxruntime fuses by node name."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 13]>
        g (float[N, 8] x) => (float[N, 2] y) <int64[1] zero = {0}, int64[1] four = {4},
                int64[1] eight = {8}, int64[1] axis = {1}, int64[2] halves = {2, 2}> {
            low = Slice(x, zero, four, axis)
            a, b = Split <axis = 1> (low, halves)
            high = Slice(x, four, eight, axis)
            c, d = Split <axis = 1> (high, halves)
            e = Add(a, d)
            f = Sub(b, c)
            y = Mul(e, f)
        }
        """
    )
    return Situation(model=model, feeds=calls({"x": (2, 8)}), source="ort#24217, onnx#1018")


def equal_node_names() -> Situation:
    """Two nodes both named "Conv", and a third one named like a value."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 3, 6, 6] x) => (float[N, 4, 6, 6] y) {
            [Conv] a = Conv <pads = [1, 1, 1, 1]> (x, w1)
            [a] b = Relu(a)
            [Conv] c = Conv <pads = [1, 1, 1, 1]> (b, w2)
            y = Tanh(c)
        }
        """,
        {"w1": weight(4, 3, 3, 3), "w2": weight(4, 4, 3, 3)},
    )
    mended = onnx.ModelProto()
    mended.CopyFrom(model)
    for node in mended.graph.node:
        node.name = ""
    return Situation(
        model=model,
        mended=mended,
        feeds=calls({"x": (1, 3, 6, 6)}),
        source="onnx-tensorflow#999, #1000",
    )


def odd_value_names() -> Situation:
    """Slashes, colons, dots, spaces, digits alone, other scripts, very long."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4] x, float[N, 4] x2) => (float[N, 4] y, float[N, 4] y2) {
            a = Relu(x)
            b = Add(a, x2)
            y = MatMul(b, w)
            y2 = Neg(b)
        }
        """,
        {"w": weight(4, 4)},
    )
    renamed = {
        "x": "gpu_0/data_0",
        "x2": "serving_default_input_2:0",
        "a": "../Größe der Zwischenwerte, 中间",
        "b": "b" * 300,
        "w": "model.encoder.layers.0.weight",
        "y": "387",
        "y2": "StatefulPartitionedCall:1",
    }
    graph = model.graph
    for value in (*graph.input, *graph.output, *graph.initializer):
        value.name = renamed[value.name]
    for node in graph.node:
        node.input[:] = [renamed[name] for name in node.input]
        node.output[:] = [renamed[name] for name in node.output]
    for value in (*graph.input, *graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "p2o.DynamicDimension.0"
    return Situation(
        model=model,
        feeds=calls({"gpu_0/data_0": (2, 4), "serving_default_input_2:0": (2, 4)}),
        source="onnx/tensorflow-onnx#872, apache/tvm#8481",
    )


def names_that_differ_in_case_or_dots() -> Situation:
    """Values that become equal once a file system or a tool cleans them."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4] x) => (float[N, 4] y) {
            a_b = Relu(x)
            A_b = Sin(x)
            a_B = Cos(x)
            s = Add(a_b, A_b)
            t = Sub(a_B, s)
            y = Mul(t, x)
        }
        """
    )
    for node in model.graph.node:
        node.input[:] = ["a/b" if name == "a_B" else name for name in node.input]
        node.output[:] = ["a/b" if name == "a_B" else name for name in node.output]
    return Situation(model=model, feeds=calls({"x": (2, 4)}), source="onnx/tensorflow-onnx#872")


def dims_are_expressions() -> Situation:
    """Dimension names that are expressions, and one name for two dimensions."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[N, M] x, float[M, N] z) => (float[N, N] y, float[K, M] both) {
            a = Relu(x)
            y = MatMul(a, z)
            both = Concat <axis = 0> (a, x)
        }
        """
    )
    model.graph.output[1].type.tensor_type.shape.dim[0].dim_param = "2*N"
    return Situation(
        model=model,
        feeds=calls({"x": (2, 3), "z": (3, 2)}, {"x": (4, 1), "z": (1, 4)}),
        source="onnx-facts 5.1",
    )


def dims_are_nameless() -> Situation:
    """Dimensions that are -1, empty or absent, as PP-OCR and older exporters have them."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 12]>
        g (float[N, 3, H, W] x) => (float[N, 4, H, W] y) {
            a = Conv <pads = [1, 1, 1, 1]> (x, w)
            b = Relu(a)
            y = Neg(b)
        }
        """,
        {"w": weight(4, 3, 3, 3)},
    )
    graph = model.graph
    for dims in (graph.input[0].type.tensor_type.shape, graph.output[0].type.tensor_type.shape):
        dims.dim[0].dim_value = -1
        dims.dim[2].dim_param = ""
        dims.dim[3].ClearField("value")
    return Situation(
        model=model,
        feeds=calls({"x": (1, 3, 5, 6)}, {"x": (2, 3, 4, 4)}),
        source="onnx-tool#49",
    )


def names_a_splitter_might_use() -> Situation:
    """Value names that end in what tools append: suffixes, numbers, "_copy"."""
    model = parse(
        """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 4] x) => (float[N, 4] x_out) {
            x_0 = Relu(x)
            x_copy = Constant <value = float[4] {1, 2, 3, 4}> ()
            x_1 = Add(x_0, x_copy)
            x_cpu0 = Sin(x_1)
            recv_x = Cos(x_cpu0)
            x_out = Mul(recv_x, x_copy)
        }
        """
    )
    return Situation(model=model, feeds=calls({"x": (2, 4)}), source="rule 8")


def notes_on_everything() -> Situation:
    """Doc strings, metadata on model, graph, nodes and values, layer annotations, a producer."""
    model = parse(
        """
        <ir_version: 10, opset_import: ["" : 20]>
        g (float[N, 4] x) => (float[N, 4] y) {
            [first] a = Relu(x)
            [second] b = MatMul(a, w)
            y = Neg(b)
        }
        """,
        {"w": weight(4, 4)},
    )
    model.producer_name, model.producer_version, model.model_version = "torch", "2.13", 7
    model.domain, model.doc_string = "org.example", "Trained on\nnothing."
    model.metadata_props.add(key="author", value="nobody")
    model.graph.doc_string = "A graph."
    model.graph.metadata_props.add(key="graph", value="1")
    model.graph.value_info.add(name="a").metadata_props.add(key="value", value="2")
    annotation = model.graph.quantization_annotation.add(tensor_name="a")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="w")
    for number, node in enumerate(model.graph.node):
        node.doc_string = f"node {number}"
        node.metadata_props.add(key="layer_ann", value=f"dplace_stage_{number}")
        node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value="['', 'layer']")
    return Situation(model=model, feeds=calls({"x": (2, 4)}), source="rule 12")


def annotated_for_devices() -> Situation:
    """ONNX's own multi-device annotations (IR 11), one of them dangling."""
    model = parse(
        """
        <ir_version: 11, opset_import: ["" : 21]>
        g (float[N, 4] x) => (float[N, 4] y) {
            a = Relu(x)
            b = MatMul(a, w)
            y = Neg(b)
        }
        """,
        {"w": weight(4, 4)},
    )
    model.configuration.add(name="pair", num_devices=2).device.extend(["one", "two"])
    for stage, node in enumerate(model.graph.node):
        where = node.device_configurations.add(configuration_id="pair", pipeline_stage=stage)
        where.sharding_spec.add(tensor_name=node.output[0]).device.append(stage % 2)
    model.graph.node[0].device_configurations.add(configuration_id="gone")
    return Situation(model=model, feeds=calls({"x": (2, 4)}), source="onnx#6641")


SITUATIONS = (
    thirty_unnamed_nodes,
    two_slice_split_patterns,
    equal_node_names,
    odd_value_names,
    names_that_differ_in_case_or_dots,
    dims_are_expressions,
    dims_are_nameless,
    names_a_splitter_might_use,
    notes_on_everything,
    annotated_for_devices,
)
