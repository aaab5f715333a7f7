"""``dplace generate``: what it asks the library for, and what it prints."""

from pathlib import Path

from tests.commands.conftest import Dplace, Record


def test_it_prints_the_path_of_each_model(dplace: Dplace, record: Record) -> None:
    recorder = record("generate", [Path("m/ptb-000.onnx"), Path("m/ptb-001.onnx")])
    result = dplace("generate", "ptb", "-o", "m", "--count", "2", "--seed", "4", "--size", "0.5")
    assert (result.code, result.out, result.err) == (0, "m/ptb-000.onnx\nm/ptb-001.onnx\n", "")
    asked = {"out": Path("m"), "count": 2, "seed": 4, "size": 0.5, "split": None}
    assert recorder.calls == [(("ptb",), asked)]


def test_a_split_is_all_its_members_unless_a_count_is_given(dplace: Dplace, record: Record) -> None:
    recorder = record("generate", [])
    assert dplace("generate", "nmt", "-o", "m", "--split", "test").code == 0
    assert recorder.calls[0][1]["split"] == "test"
    assert recorder.calls[0][1]["count"] is None


def test_a_split_that_is_not_one_is_a_wrong_option(dplace: Dplace, record: Record) -> None:
    recorder = record("generate", [])
    result = dplace("generate", "nmt", "-o", "m", "--split", "dev")
    assert result.code == 2
    assert "'dev' is not one of 'train', 'test', 'all'" in result.err
    assert recorder.calls == []


def test_its_help_names_every_family(dplace: Dplace) -> None:
    from dplace.graph_io.families import FAMILIES

    text = dplace("generate", "--help").out
    assert all(family in text for family in FAMILIES)
