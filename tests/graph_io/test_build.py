"""What placement sees of a model: ops, values with sizes, weights, what is cloned."""

import pytest

from tests.graph_io.models import parse, prepare


def test_ops_values_and_bytes_of_a_chain() -> None:
    _, placeable = prepare(
        parse("g (float[2,8] x) => (float[2,8] y) { a = Relu(x)  y = Sigmoid(a) }")
    )
    graph = placeable.graph
    assert graph.op_names == ("a", "y")
    assert graph.op_types == ("Relu", "Sigmoid")
    assert graph.value_names == ("x", "a", "y")
    assert graph.value_bytes.tolist() == [64, 64, 64]
    assert graph.value_producer.tolist() == [-1, 0, 1]
    assert graph.consumers_of(1).tolist() == [1]
    assert graph.graph_inputs.tolist() == [0]
    assert graph.graph_outputs.tolist() == [2]


def test_an_op_that_no_output_needs_is_left_out() -> None:
    _, placeable = prepare(parse("g (float[2] x) => (float[2] y) { y = Relu(x)  unused = Neg(x) }"))
    assert placeable.graph.op_names == ("y",)


def test_a_value_read_twice_by_one_op_is_one_value() -> None:
    _, placeable = prepare(parse("g (float[2] x) => (float[2] y) { a = Relu(x)  y = Mul(a, a) }"))
    assert placeable.graph.inputs_of(1).tolist() == [1]


def test_constants_are_cloned_to_their_users_and_count_as_weights() -> None:
    _, placeable = prepare(
        parse(
            """g (float[4,4] x) => (float[4,4] y, float[4,4] z) {
                c = Constant<value = float[4] {1,2,3,4}>()
                d = Neg(c)
                y = Add(x, d)
                z = Mul(x, d)
            }"""
        )
    )
    graph = placeable.graph
    assert graph.op_names == ("y", "z")
    assert [node.op_type for node in placeable.op_clones[0]] == ["Constant", "Neg"]
    assert {graph.weight_names[w] for w in graph.weights_of(1)} == {"c", "d"}


def test_shape_stays_with_its_producer_and_its_arithmetic_is_cloned() -> None:
    _, placeable = prepare(
        parse(
            """g (float[N,6] x) => (float[M,3] y) {
                a = Relu(x)
                shape = Shape(a)
                zero = Constant<value = int64 {0}>()
                rows = Gather<axis = 0>(shape, zero)
                axes = Constant<value = int64[1] {0}>()
                rows1 = Unsqueeze(rows, axes)
                minus = Constant<value = int64[2] {-1, 3}>()
                last = Constant<value = int64[1] {3}>()
                two = Constant<value = int64[1] {2}>()
                doubled = Mul(rows1, two)
                target = Concat<axis = 0>(doubled, last)
                b = Sigmoid(a)
                y = Reshape(b, target)
            }"""
        ),
        dims={"N": 5},
    )
    graph = placeable.graph
    assert graph.op_names == ("a", "b", "y")
    assert [node.op_type for node in placeable.op_nodes[0]] == ["Relu", "Shape"]
    names = {graph.value_names[value] for value in graph.inputs_of(2).tolist()}
    assert names == {"b", "shape"}
    assert graph.value_bytes[graph.value_names.index("shape")] == 16
    assert graph.value_bytes[graph.value_names.index("b")] == 5 * 6 * 4


def test_a_dequantised_activation_crosses_as_bytes() -> None:
    _, placeable = prepare(
        parse(
            """g (float[1,100] x) => (float[1,100] y, float[1,100] z)
               <float scale = {0.1}, uint8 zero = {128}> {
                q = QuantizeLinear(x, scale, zero)
                d = DequantizeLinear(q, scale, zero)
                y = Relu(d)
                z = Neg(d)
            }"""
        )
    )
    graph = placeable.graph
    assert graph.op_names == ("q", "y", "z")
    assert [node.op_type for node in placeable.op_clones[1]] == ["DequantizeLinear"]
    assert graph.value_bytes[graph.value_names.index("q")] == 100


def test_captured_values_are_inputs_of_the_control_flow_op() -> None:
    _, placeable = prepare(
        parse(
            """g (float[2] x, bool c) => (float[2] y) {
                a = Relu(x)
                b = Neg(x)
                y = If(c) <
                    then_branch = t () => (float[2] p) { p = Add(a, b) },
                    else_branch = e () => (float[2] q) { q = Identity(a) }
                >
            }"""
        )
    )
    graph = placeable.graph
    inputs = {graph.value_names[value] for value in graph.inputs_of(2).tolist()}
    assert inputs == {"c", "a", "b"}


def test_values_that_cannot_cross_tie_their_ops_together() -> None:
    _, placeable = prepare(
        parse(
            """g (float[2] x) => (float[2] y) {
                a = Relu(x)
                o = Optional(a)
                b = OptionalGetElement(o)
                y = Neg(b)
            }"""
        )
    )
    graph = placeable.graph
    tied = graph.colocation
    assert tied[graph.op_names.index("o")] == tied[graph.op_names.index("b")] >= 0
    assert tied[graph.op_names.index("y")] == -1


@pytest.mark.parametrize("mode", ["native", "portable", "none"])
def test_ops_stand_in_a_topological_order(mode: str) -> None:
    model = parse(
        """g (float[1,3,8,8] x) => (float[1,4,8,8] y) {
            c = Conv<pads = [1,1,1,1]>(x, w, bias)
            r = Relu(c)
            s = Sigmoid(r)
            y = Add(r, s)
        }""",
        w=(4, 3, 3, 3),
        bias=(4,),
    )
    _, placeable = prepare(model, mode=mode)  # type: ignore[arg-type]
    graph = placeable.graph
    for op in range(graph.num_ops):
        for value in graph.inputs_of(op).tolist():
            assert graph.value_producer[value] < op


def test_portable_keeps_whole_what_would_still_fuse() -> None:
    model = parse(
        """g (float[1,3,8,8] x) => (float[1,4,8,8] y) {
            c = Conv<pads = [1,1,1,1]>(x, w, bias)
            r = Relu(c)
            y = Sigmoid(r)
        }""",
        w=(4, 3, 3, 3),
        bias=(4,),
    )
    _, placeable = prepare(model, mode="portable")
    assert [[node.op_type for node in nodes] for nodes in placeable.op_nodes] == [
        ["Conv", "Relu"],
        ["Sigmoid"],
    ]
