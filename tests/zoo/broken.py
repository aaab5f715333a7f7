"""Models that cannot be used, each with what the one line about it has to say."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import onnx
from onnx import TensorProto, helper

from tests.zoo.external_data import move_weights_out, place_outside, small_model
from tests.zoo.situation import parse, weight

__all__ = ["BROKEN", "Broken"]

HEADER = '<ir_version: 8, opset_import: ["" : 17]>'


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """A fault in a model's files."""

    write: Callable[[Path], Path]
    """Writes the files into an empty folder and returns what to give to the command."""
    words: tuple[str, ...]
    """Regular expressions that the line on standard error matches, whatever their case."""
    exit_code: int = 1


def save(model: onnx.ModelProto, folder: Path) -> Path:
    """Write the model as ``bad.onnx``, its faults included."""
    path = folder / "bad.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def from_text(body: str, functions: str = "") -> Callable[[Path], Path]:
    """Return a writer of the model whose main graph has this signature and these nodes."""
    return lambda folder: save(parse(f"{HEADER} g {body} {functions}"), folder)


def from_bytes(content: bytes) -> Callable[[Path], Path]:
    """Return a writer of a file with this content."""

    def write(folder: Path) -> Path:
        path = folder / "bad.onnx"
        path.write_bytes(content)
        return path

    return write


def truncated(folder: Path) -> Path:
    """Write the first two thirds of a model with a weight."""
    whole = parse(
        f"{HEADER} g (float[N, 32] x) => (float[N, 32] y) {{ y = MatMul(x, w) }}",
        {"w": weight(32, 32)},
    ).SerializeToString()
    return from_bytes(whole[: 2 * len(whole) // 3])(folder)


def folder_itself(folder: Path) -> Path:
    """Give a folder instead of a file."""
    path = folder / "bad.onnx"
    path.mkdir()
    return path


def two_producers(folder: Path) -> Path:
    """Write a graph in which two nodes, named one and two, make the same value."""
    return from_text(
        "(float[N, 4] x) => (float[N, 4] y) {"
        " [one] twice = Relu(x)  [two] twice = Neg(x)  y = Sin(twice) }"
    )(folder)


def cycle(folder: Path) -> Path:
    """Write a graph in which two nodes wait for each other."""
    return from_text(
        "(float[N, 4] x) => (float[N, 4] y) {"
        " [first] a = Add(x, b)  [second] b = Sin(a)  y = Neg(b) }"
    )(folder)


def domain_not_imported(folder: Path) -> Path:
    """Write a node of a domain that the model does not import and no runtime knows."""
    model = parse(f"{HEADER} g (float[N, 4] x) => (float[N, 4] y) {{ y = Relu(x) }}")
    model.graph.node[0].domain = "org.nowhere"
    return save(model, folder)


def unknown_domain(folder: Path) -> Path:
    """Write an op of a domain that is imported and that no runtime knows."""
    model = parse(
        '<ir_version: 8, opset_import: ["" : 17, "org.nowhere" : 1]>'
        "g (float[N, 4] x) => (float[N, 4] y) { [odd] y = org.nowhere.Frobnicate (x) }"
    )
    return save(model, folder)


def newer_opset(folder: Path) -> Path:
    """Write a model of an operator set that does not exist yet."""
    model = parse(f"{HEADER} g (float[N, 4] x) => (float[N, 4] y) {{ y = Relu(x) }}")
    model.opset_import[0].version = 9999
    return save(model, folder)


def missing_weights(folder: Path) -> Path:
    """Write a model whose data file was left behind."""
    path = move_weights_out(small_model(), folder, "gone.bin")
    (folder / "gone.bin").unlink()
    return path


def short_weights(folder: Path) -> Path:
    """Write a model whose data file was cut off."""
    path = move_weights_out(small_model(), folder, "short.bin")
    with (folder / "short.bin").open("rb+") as file:
        file.truncate(300)
    return path


def wrong_length(folder: Path) -> Path:
    """Write a weight whose length in the file does not fit its shape."""
    model = small_model()
    (folder / "w.bin").write_bytes(bytes(1000))
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    place_outside(tensor, "w.bin", offset=0, length=100)
    return save(model, folder)


def negative_offset(folder: Path) -> Path:
    """Write a weight that starts before its file."""
    model = small_model()
    (folder / "w.bin").write_bytes(bytes(1000))
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    place_outside(tensor, "w.bin", offset=-16, length=256)
    return save(model, folder)


def parent_folder(folder: Path) -> Path:
    """Write a model that wants ``../w.bin``, a file that exists."""
    inside = folder / "inside"
    inside.mkdir()
    return move_weights_out(small_model(), inside, "../w.bin")


def absolute_path(folder: Path) -> Path:
    """Write a model that names its data file by an absolute path."""
    return move_weights_out(small_model(), folder, str(folder.resolve() / "w.bin"))


def symbolic_link_out(folder: Path) -> Path:
    """Write a model whose data file is a symbolic link to a file outside."""
    inside = folder / "inside"
    inside.mkdir()
    path = move_weights_out(small_model(), inside, "w.bin")
    shutil.move(inside / "w.bin", folder / "secret.bin")
    (inside / "w.bin").symlink_to(folder / "secret.bin")
    return path


def wrong_initializer_size(folder: Path) -> Path:
    """Write an initializer with fewer bytes than its shape needs."""
    model = parse(f"{HEADER} g (float[N, 4] x) => (float[N, 4] y) {{ y = MatMul(x, w) }}")
    model.graph.initializer.append(
        TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4, 4], raw_data=bytes(12))
    )
    return save(model, folder)


def no_graph(folder: Path) -> Path:
    """Write a model without a graph."""
    return save(onnx.ModelProto(ir_version=8), folder)


def graph_only(folder: Path) -> Path:
    """Write a graph without a model around it: it parses, and as a model it is nonsense."""
    graph = parse(f"{HEADER} g (float[N, 4] x) => (float[N, 4] y) {{ y = Relu(x) }}").graph
    return from_bytes(graph.SerializeToString())(folder)


def recursive_function(folder: Path) -> Path:
    """Write a function that calls itself."""
    model = parse(
        '<ir_version: 8, opset_import: ["" : 17, "local" : 1]>'
        "g (float[N, 4] x) => (float[N, 4] y) { y = local.again (x) }"
        '<domain: "local", opset_import: ["" : 17, "local" : 1]>'
        "again (p) => (q) { r = Neg(p)  q = local.again (r) }"
    )
    return save(model, folder)


def wrong_types(folder: Path) -> Path:
    """Write an Add of a float and an integer."""
    return from_text("(float[N, 4] x, int64[N, 4] i) => (float[N, 4] y) { [mixed] y = Add(x, i) }")(
        folder
    )


def broken_branch(folder: Path) -> Path:
    """Write an If whose branch reads a value that exists nowhere."""
    return from_text(
        "(float[N, 4] x, bool c) => (float[N, 4] y) { y = If (c) <"
        " then_branch = t () => (float[N, 4] p) { p = Relu(nowhere) },"
        " else_branch = e () => (float[N, 4] q) { q = Neg(x) }> }"
    )(folder)


def no_attribute_value(folder: Path) -> Path:
    """Write a Constant node that holds nothing."""
    return from_text("(float[N, 4] x) => (float[N, 4] y) { k = Constant ()  y = Add(x, k) }")(
        folder
    )


def text_file(folder: Path) -> Path:
    """Write a README, of some length."""
    return from_bytes(b"# A model\n\nDownload it first, then convert it.\n" * 20)(folder)


def not_there(folder: Path) -> Path:
    """Name a file that does not exist."""
    return folder / "bad.onnx"


def duplicate_initializers(folder: Path) -> Path:
    """Write an initializer that a node makes as well."""
    model = parse(f"{HEADER} g (float[4] x) => (float[4] y) {{ w = Neg(x)  y = Add(x, w) }}")
    model.graph.initializer.append(helper.make_tensor("w", TensorProto.FLOAT, [4], [0.0] * 4))
    return save(model, folder)


BROKEN: dict[str, Broken] = {
    "not_a_protobuf": Broken(write=text_file, words=("bad.onnx", "not an ONNX model")),
    "truncated": Broken(write=truncated, words=("bad.onnx", "truncated")),
    "empty_file": Broken(write=from_bytes(b""), words=("bad.onnx", "empty")),
    "zeros": Broken(write=from_bytes(bytes(4096)), words=("bad.onnx", "not an ONNX model")),
    "a_directory": Broken(write=folder_itself, words=("bad.onnx", "folder|directory")),
    "not_there": Broken(write=not_there, words=("bad.onnx", "no such file|not exist")),
    "no_graph": Broken(write=no_graph, words=("bad.onnx", "graph")),
    "graph_only": Broken(write=graph_only, words=("bad.onnx", "not an ONNX model")),
    "missing_external_data": Broken(write=missing_weights, words=("gone.bin",)),
    "short_external_data": Broken(write=short_weights, words=("short.bin", "300")),
    "wrong_external_length": Broken(write=wrong_length, words=("w1", "100", "256")),
    "negative_external_offset": Broken(write=negative_offset, words=("w1", "-16|offset")),
    "external_data_in_parent_folder": Broken(
        write=parent_folder, words=(r"\.\./w\.bin", "outside|escape|leave")
    ),
    "external_data_by_absolute_path": Broken(
        write=absolute_path, words=("/w.bin", "absolute|outside|escape|leave")
    ),
    "external_data_by_symlink_out": Broken(
        write=symbolic_link_out, words=("w.bin", "outside|escape|leave|link")
    ),
    "non_ssa": Broken(write=two_producers, words=("twice", "one", "two")),
    "initializer_made_by_a_node_too": Broken(write=duplicate_initializers, words=("\"w\"|'w'",)),
    "undefined_value": Broken(
        write=from_text("(float[N, 4] x) => (float[N, 4] y) { [lost] y = Add(x, nowhere) }"),
        words=("nowhere", "lost|y"),
    ),
    "undefined_value_in_branch": Broken(write=broken_branch, words=("nowhere",)),
    "undefined_output": Broken(
        write=from_text("(float[N, 4] x) => (float[N, 4] y, float[N, 4] z) { y = Relu(x) }"),
        words=("\"z\"|'z'",),
    ),
    "op_unknown_to_its_domain": Broken(
        write=from_text("(float[N, 4] x) => (float[N, 4] y) { [odd] y = Frobnicate(x) }"),
        words=("Frobnicate",),
    ),
    "op_of_an_unknown_domain": Broken(write=unknown_domain, words=("org.nowhere", "Frobnicate")),
    "domain_not_imported": Broken(write=domain_not_imported, words=("org.nowhere",)),
    "opset_of_the_future": Broken(write=newer_opset, words=("9999",)),
    "cyclic": Broken(write=cycle, words=("cycle|circular", "first|second|a|b")),
    "recursive_function": Broken(write=recursive_function, words=("again",)),
    "wrong_types": Broken(write=wrong_types, words=("mixed|Add",)),
    "initializer_too_short": Broken(write=wrong_initializer_size, words=("\\bw\\b",)),
    "constant_without_value": Broken(write=no_attribute_value, words=("Constant|k",)),
}
"""Every fault by its name."""
