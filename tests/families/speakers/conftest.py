import numpy as np
import pytest
from speaker_weights import drawn_embedding, drawn_segmentation


@pytest.fixture(scope="session")
def segmentation_weights() -> dict[str, np.ndarray]:
    return drawn_segmentation()


@pytest.fixture(scope="session")
def embedding_weights() -> dict[str, np.ndarray]:
    return drawn_embedding()
