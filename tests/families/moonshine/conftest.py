import shutil
from pathlib import Path

import numpy as np
import pytest
from exact_moonshine import write_exact_graphs
from known_models import skip_without

from conch.catalogue.models import KINDS, find
from conch.component import Row
from conch.families.moonshine import PACKAGE, weights
from conch.families.moonshine import TINY as MOONSHINE_TINY
from conch.families.moonshine.decoder import DecoderComponent, MoonshineDecoderConfig
from conch.families.moonshine.network import EncoderComponent, MoonshineConfig
from conch.packaged import packaged


@pytest.fixture(scope="session")
def encoder() -> EncoderComponent:
    return EncoderComponent(MoonshineConfig())


@pytest.fixture(scope="session")
def decoder() -> DecoderComponent:
    return DecoderComponent(MoonshineDecoderConfig())


@pytest.fixture(scope="session")
def encoded(encoder, tiger) -> dict[str, np.ndarray]:
    (answer,) = encoder([Row({"waveform": tiger})])
    return answer


@pytest.fixture(scope="session")
def exact_folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("moonshine") / "exact"
    write_exact_graphs(packaged(PACKAGE, weights.MODELS, {}), folder)
    shutil.copy(weights.moonshine_folder("") / weights.TOKENIZER_FILE, folder)
    return folder


@pytest.fixture(scope="session")
def tiny_source() -> Path:
    """The files of Moonshine tiny, as its package has them."""
    skip_without(MOONSHINE_TINY)
    return find(KINDS["moonshine"], "tiny")


@pytest.fixture(scope="session")
def exact_encoder(exact_folder) -> EncoderComponent:
    return EncoderComponent(MoonshineConfig(model=str(exact_folder)))


@pytest.fixture(scope="session")
def exact_decoder(exact_folder) -> DecoderComponent:
    return DecoderComponent(MoonshineDecoderConfig(model=str(exact_folder)))


@pytest.fixture(scope="session")
def exactly_encoded(exact_encoder, tiger) -> dict[str, np.ndarray]:
    (answer,) = exact_encoder([Row({"waveform": tiger})])
    return answer
