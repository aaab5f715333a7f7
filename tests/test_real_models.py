"""Real models, split at many points: a quick choice; benchmarks/bit_equal.py has them all."""

from pathlib import Path
from typing import Any

import pytest

from dplace import api
from dplace.runtime.placed_session import PlacedSession
from tests.zoo.plain_session import assert_bit_equal, run_plain
from tests.zoo.real_models import REAL_MODELS, ModelMissingError, RealModel

RANDOM: dict[str, Any] = {"cluster": "3xCPU", "policy": "random"}
AUTO: dict[str, Any] = {"cluster": "2xCPU", "policy": "auto", "evaluations": 100}

CHOICE = (
    "light_squeezenet",
    "light_shufflenet",
    "light_inception_v1",
    "gpt2",
    "lstm",
    "vit_float16",
    "silero_vad",
    "silero_vad_half",
    "silero_vad_16k_sequence",
    "ch_PP-OCRv4_det_infer",
    "ch_ppocr_mobile_v2.0_cls_infer",
    "minilm_int8",
    "generated_inception",
    "generated_two-tower",
    "generated_transformer",
    "generated_lstm",
)
PLACEMENTS: dict[str, dict[str, Any]] = {
    "random-all": {**RANDOM, "seed": 0, "opt_level": "all"},
    "random-none": {**RANDOM, "seed": 1, "opt_level": "none"},
    "auto": {**AUTO, "opt_level": "all"},
}


def find(name: str) -> RealModel:
    """Return a real model, or skip the test where nobody installed it."""
    try:
        return REAL_MODELS[name]()
    except ModelMissingError as missing:
        pytest.skip(str(missing))


@pytest.mark.parametrize("way", PLACEMENTS)
@pytest.mark.parametrize("name", CHOICE)
def test_real_model_is_exact(name: str, way: str, tmp_path: Path) -> None:
    model, options = find(name), PLACEMENTS[way]
    api.place(model.path, out=tmp_path / "plan", **options)
    with PlacedSession(tmp_path / "plan") as session:
        got = [session.run(None, feeds) for feeds in model.feeds]
    assert_bit_equal(got, run_plain(model.path, model.feeds, options["opt_level"]))


def test_every_real_model_is_found_or_its_package_named() -> None:
    for name in REAL_MODELS:
        if name.startswith(("light_", "silero", "ch_", "minilm")):
            assert find(name).path.exists()
