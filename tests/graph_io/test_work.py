import onnx
import onnx_ir as ir
import pytest

from dplace.graph_io.work import DEFAULT_TRIPS, KERNEL_CLASSES, RULES, Work, node_work
from dplace.profiles import device_kinds

F32 = ir.DataType.FLOAT
Shapes = dict[str, tuple[int, ...]]


def value(name: str, dtype: ir.DataType | None = F32) -> ir.Value:
    return ir.Value(name=name, type=None if dtype is None else ir.TensorType(dtype))


def make(
    op_type: str,
    inputs: list[ir.Value | None],
    outputs: list[ir.Value],
    attributes: dict[str, object] | None = None,
    domain: str = "",
) -> ir.Node:
    attrs = [ir.convenience.convert_attribute(k, v) for k, v in (attributes or {}).items()]  # type: ignore[arg-type]
    return ir.Node(domain, op_type, inputs, attrs, outputs=outputs)


def work_of(
    op_type: str,
    inputs: list[tuple[int, ...] | None],
    outputs: list[tuple[int, ...]],
    *,
    domain: str = "",
    dtypes: dict[int, ir.DataType] | None = None,
    **attributes: object,
) -> Work:
    """Return the work of a node whose inputs and outputs have these shapes; None: left out."""
    shapes: Shapes = {}
    values: list[ir.Value | None] = []
    for index, shape in enumerate(inputs):
        if shape is None:
            values.append(None)
            continue
        values.append(value(f"in{index}", (dtypes or {}).get(index, F32)))
        shapes[f"in{index}"] = shape
    made = [value(f"out{index}", (dtypes or {}).get(-1, F32)) for index in range(len(outputs))]
    shapes |= {f"out{index}": shape for index, shape in enumerate(outputs)}
    node = make(op_type, values, made, attributes, domain)
    return node_work(node, lambda v: shapes.get(v.name or ""))


def test_a_convolution_multiplies_every_output_with_a_filter() -> None:
    work = work_of("Conv", [(1, 3, 224, 224), (64, 3, 7, 7), (64,)], [(1, 64, 112, 112)])
    assert work.flop == 2 * (64 * 112 * 112) * (3 * 7 * 7)
    assert work.bytes_moved == 4 * (3 * 224 * 224 + 64 * 3 * 49 + 64 + 64 * 112 * 112)
    assert (work.kernel_class, work.dtype, work.launches, work.known) == (
        "conv",
        "float32",
        1,
        True,
    )


def test_groups_divide_the_work_of_a_convolution() -> None:
    work = work_of("Conv", [(1, 64, 8, 8), (128, 16, 3, 3)], [(1, 128, 8, 8)], group=4)
    assert work.flop == 2 * (128 * 8 * 8) * (16 * 3 * 3)
    assert work.kernel_class == "conv"


def test_one_channel_a_group_is_a_depthwise_convolution() -> None:
    work = work_of("Conv", [(1, 32, 8, 8), (32, 1, 3, 3)], [(1, 32, 8, 8)], group=32)
    assert (work.flop, work.kernel_class) == (2 * 32 * 64 * 9, "depthwise_conv")


def test_a_transposed_convolution_spreads_every_input() -> None:
    work = work_of("ConvTranspose", [(2, 8, 5, 5), (8, 4, 3, 3)], [(2, 4, 11, 11)])
    assert work.flop == 2 * (2 * 8 * 25) * (4 * 9)


@pytest.mark.parametrize("domain", ["com.microsoft.nchwc", "com.ms.internal.nhwc"])
def test_layout_domains_count_like_the_ops_they_stand_for(domain: str) -> None:
    work = work_of("Conv", [(1, 16, 8, 8), (32, 16, 1, 1)], [(1, 32, 8, 8)], domain=domain)
    assert (work.flop, work.known) == (2 * 32 * 64 * 16, True)


def test_a_quantised_convolution_has_its_weights_at_the_fourth_input() -> None:
    work = work_of(
        "QLinearConv",
        [(1, 8, 4, 4), (), (), (16, 8, 3, 3), (16,), (16,), (), ()],
        [(1, 16, 4, 4)],
        dtypes={0: ir.DataType.UINT8, 3: ir.DataType.INT8, -1: ir.DataType.UINT8},
    )
    assert (work.flop, work.dtype) == (2 * 16 * 16 * 72, "int8")
    assert work.kernel_class == "quantised_conv"


def test_a_product_of_batches_multiplies_each() -> None:
    work = work_of("MatMul", [(2, 12, 128, 64), (2, 12, 64, 128)], [(2, 12, 128, 128)])
    assert work.flop == 2 * (2 * 12) * 128 * 64 * 128
    assert work.kernel_class == "matmul"


def test_a_single_row_is_bound_by_memory() -> None:
    assert work_of("MatMul", [(1, 1, 768), (768, 3072)], [(1, 1, 3072)]).kernel_class == "gemv"
    assert work_of("MatMul", [(4, 1, 768), (768, 3072)], [(4, 1, 3072)]).kernel_class == "matmul"
    assert work_of("MatMul", [(768,), (768, 3072)], [(3072,)]).flop == 2 * 768 * 3072


def test_a_gemm_may_read_its_matrices_transposed() -> None:
    work = work_of("Gemm", [(64, 32), (100, 64), (100,)], [(32, 100)], transA=1, transB=1)
    assert work.flop == 2 * 32 * 64 * 100


def test_half_precision_halves_the_bytes() -> None:
    half = dict.fromkeys((-1, 0, 1), ir.DataType.FLOAT16)
    work = work_of("MatMul", [(8, 8), (8, 8)], [(8, 8)], dtypes=half)
    assert (work.bytes_moved, work.dtype) == (2 * 3 * 64, "float16")


def test_four_bit_weights_take_half_a_byte() -> None:
    work = work_of("Cast", [(64, 10)], [(64, 10)], dtypes={-1: ir.DataType.INT4})
    assert work.bytes_moved == 640 * 4 + 320


def test_an_einsum_loops_over_all_its_labels() -> None:
    work = work_of(
        "Einsum", [(2, 8, 5, 16), (2, 8, 7, 16)], [(2, 8, 5, 7)], equation="bhqd,bhkd->bhqk"
    )
    assert (work.flop, work.kernel_class) == (2 * 2 * 8 * 5 * 7 * 16, "matmul")


@pytest.mark.parametrize(("hidden", "share"), [(64, 0.5), (1024, 1.0)])
def test_an_lstm_reads_its_hidden_weights_at_every_step(hidden: int, share: float) -> None:
    steps, batch, width = 10, 2, 32
    work = work_of(
        "LSTM",
        [(steps, batch, width), (1, 4 * hidden, width), (1, 4 * hidden, hidden)],
        [(steps, 1, batch, hidden)],
        hidden_size=hidden,
    )
    products = 2 * steps * batch * 4 * hidden * (width + hidden)
    assert work.flop == products + 10 * steps * batch * 4 * hidden
    once = 4 * (steps * batch * width + 4 * hidden * (width + hidden) + steps * batch * hidden)
    assert work.bytes_moved == once + share * 9 * (4 * 4 * hidden * hidden)
    assert work.kernel_class == "recurrent"


def test_attention_multiplies_queries_with_keys_and_scores_with_values() -> None:
    batch, heads, queries, keys, width = 2, 12, 16, 24, 64
    work = work_of(
        "Attention",
        [(batch, heads, queries, width), (batch, heads, keys, width), (batch, heads, keys, width)],
        [(batch, heads, queries, width)],
    )
    pairs = batch * heads * queries * keys
    assert work.flop == 2 * pairs * (width + width) + 8 * pairs
    flat = work_of(
        "Attention",
        [(2, 16, 768), (2, 24, 768), (2, 24, 768)],
        [(2, 16, 768)],
        q_num_heads=12,
        kv_num_heads=12,
    )
    assert flat.flop == work.flop


def test_a_fused_attention_projects_its_input_first() -> None:
    work = work_of(
        "Attention",
        [(1, 8, 64), (64, 192), (192,)],
        [(1, 8, 64)],
        domain="com.microsoft",
        num_heads=4,
    )
    assert work.flop == 2 * 8 * 64 * 192 + 4 * 8 * 8 * 64 + 8 * (4 * 8 * 8)


def test_a_cache_adds_to_the_keys() -> None:
    work = work_of(
        "GroupQueryAttention",
        [(1, 1, 64), (1, 1, 32), (1, 1, 32), (1, 2, 99, 16), (1, 2, 99, 16), (1,), ()],
        [(1, 1, 64), (1, 2, 100, 16), (1, 2, 100, 16)],
        domain="com.microsoft",
        num_heads=4,
        kv_num_heads=2,
    )
    assert work.flop == 4 * 1 * 100 * 64 + 8 * (4 * 100)


def test_a_gather_moves_the_rows_it_picks_not_the_table() -> None:
    work = work_of("Gather", [(50000, 768), (1, 8)], [(1, 8, 768)], dtypes={1: ir.DataType.INT64})
    assert work.bytes_moved == 2 * 4 * 8 * 768 + 8 * 8


def test_views_and_constants_cost_no_bytes() -> None:
    view = work_of("Reshape", [(2, 8), (1,)], [(16,)], dtypes={1: ir.DataType.INT64})
    assert (view.flop, view.bytes_moved, view.kernel_class, view.launches) == (0, 0, "free", 1)
    assert work_of("Constant", [], [(16,)]).launches == 0


def inner_graph(name: str, width: int) -> ir.Graph:
    """Return a body with one product of two square matrices, captured from outside."""
    out = value(f"{name}_out")
    out.shape = ir.Shape([width, width])
    left, right = value(f"{name}_a"), value(f"{name}_b")
    left.shape = right.shape = ir.Shape([width, width])
    node = make("MatMul", [left, right], [out])
    return ir.Graph([], [out], nodes=[node], name=name)


def test_an_if_costs_its_costliest_branch() -> None:
    node = make(
        "If",
        [value("condition", ir.DataType.BOOL)],
        [value("y")],
        {"then_branch": inner_graph("then", 8), "else_branch": inner_graph("else", 32)},
    )
    work = node_work(node, lambda _: None)
    assert (work.flop, work.bytes_moved) == (2 * 32**3, 3 * 4 * 32**2)
    assert (work.kernel_class, work.launches, work.known) == ("matmul", 2, True)


def loop(trips: ir.Value | None) -> ir.Node:
    return make("Loop", [trips, None], [value("y")], {"body": inner_graph("body", 16)})


def test_a_loop_costs_its_body_times_its_trips() -> None:
    trips = value("trips", ir.DataType.INT64)
    trips.const_value = ir.tensor([5])
    work = node_work(loop(trips), lambda _: None)
    assert (work.flop, work.launches, work.known) == (5 * 2 * 16**3, 6, True)


@pytest.mark.parametrize("count", [None, -1, 2**63 - 1])
def test_a_loop_without_a_usable_trip_count_takes_a_default(count: int | None) -> None:
    trips = value("trips", ir.DataType.INT64)
    trips.const_value = None if count is None else ir.tensor([count])
    work = node_work(loop(trips), lambda _: None)
    assert (work.flop, work.known) == (DEFAULT_TRIPS * 2 * 16**3, False)


def test_a_trip_count_may_come_from_a_constant_node() -> None:
    trips = value("trips", ir.DataType.INT64)
    make("Constant", [], [trips], {"value": ir.tensor([3])})
    assert node_work(loop(trips), lambda _: None).flop == 3 * 2 * 16**3


def test_a_scan_runs_its_body_along_its_input() -> None:
    node = make(
        "Scan",
        [value("state"), value("xs")],
        [value("y")],
        {"body": inner_graph("body", 16), "num_scan_inputs": 1},
    )
    shapes: Shapes = {"state": (16, 16), "xs": (7, 16)}
    work = node_work(node, lambda v: shapes.get(v.name or ""))
    assert (work.flop, work.launches, work.known) == (7 * 2 * 16**3, 8, True)


def test_an_empty_branch_is_control() -> None:
    empty = ir.Graph([], [], nodes=[])
    node = make("If", [value("c", ir.DataType.BOOL)], [value("y")], {"then_branch": empty})
    assert node_work(node, lambda _: None).kernel_class == "control"


def test_an_unknown_op_gets_a_default_and_says_so() -> None:
    work = work_of("Frobnicate", [(4, 4)], [(4, 4)], domain="acme")
    assert (work.known, work.kernel_class, work.bytes_moved) == (False, "other", 128)


@pytest.mark.parametrize("op_type", sorted(RULES))
def test_no_op_raises_without_shapes_or_with_odd_ones(op_type: str) -> None:
    domain, _, name = op_type.rpartition(":")
    for shape in (None, (), (0,), (3,), (2, 0), (2, 3, 4, 5, 6, 7)):
        for dtype in (None, ir.DataType.STRING, ir.DataType.INT4):
            inputs = [value(f"in{index}", dtype) for index in range(9)]
            node = make(name, [*inputs], [value("y", dtype), value("z")], {}, domain)
            work = node_work(node, lambda _, s=shape: s)  # type: ignore[misc]
            assert work.kernel_class in KERNEL_CLASSES
            assert work.flop >= 0
            assert work.bytes_moved >= 0
            if shape is None and work.kernel_class != "free":
                assert not work.known


def test_every_op_of_the_standard_has_a_rule_or_a_body() -> None:
    with_bodies = {"If", "Loop", "Scan", "SequenceMap", "ai.onnx.preview.training:Gradient"}
    names = {
        f"{schema.domain}:{schema.name}" if schema.domain else schema.name
        for schema in onnx.defs.get_all_schemas()
    }
    assert names - set(RULES) - with_bodies == set()


def test_every_kernel_class_has_an_efficiency_on_every_device() -> None:
    for kind in device_kinds():
        assert set(kind.efficiency) == set(KERNEL_CLASSES), kind.name
