"""What the components say where CUDA is asked for and something is missing."""

import ctranslate2
import onnxruntime
import pytest

from conch.component.ctranslate import CTranslate2Config
from conch.component.parameters import DeviceConfig
from conch.families.ctc.onnx_model import CtcGraph
from conch.families.whisper.config import load_whisper
from conch.wire.errors import ConfigError

CUDA = "CUDAExecutionProvider"


@pytest.mark.skipif(CUDA in onnxruntime.get_available_providers(), reason="onnxruntime-gpu is here")
def test_an_onnxruntime_without_cuda_names_the_package_that_has_it():
    with pytest.raises(ConfigError, match="pip install 'onnxruntime-gpu"):
        CtcGraph(DeviceConfig(device="cuda"))


def test_an_onnxruntime_that_falls_back_to_the_cpu_is_refused(monkeypatch):
    """onnxruntime-gpu without a fitting CUDA only logs that, and is many times slower."""
    pytest.importorskip("onnx")
    there = onnxruntime.get_available_providers
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [CUDA, *there()])
    monkeypatch.setattr(onnxruntime, "preload_dlls", lambda: None)
    session = onnxruntime.InferenceSession

    def fallen_back(path, options, providers):
        assert providers == [(CUDA, {"device_id": 1, "cudnn_conv_algo_search": "HEURISTIC"})]
        return session(path, options, providers=["CPUExecutionProvider"])

    monkeypatch.setattr(onnxruntime, "InferenceSession", fallen_back)
    with pytest.raises(ConfigError, match="finds no CUDA, or not the version"):
        CtcGraph(DeviceConfig(device="cuda", device_index=1))


@pytest.mark.skipif(ctranslate2.get_cuda_device_count() > 0, reason="there is a GPU")
def test_whisper_without_a_gpu_says_what_it_needs():
    with pytest.raises(ConfigError, match=r"on cuda with compute type float16: .*cuBLAS 12"):
        load_whisper(CTranslate2Config(device="cuda"))


def test_whisper_is_used_once_when_it_is_loaded_on_a_gpu(monkeypatch):
    """CTranslate2 looks for cuBLAS at its first use, which must not be a request."""

    class WithoutCublas:
        n_mels = 80

        def __init__(self, folder, **options):
            assert options["device_index"] == 1

        def encode(self, features):
            raise RuntimeError("Library libcublas.so.12 is not found or cannot be loaded")

    monkeypatch.setattr(ctranslate2.models, "Whisper", WithoutCublas)
    with pytest.raises(ConfigError, match=r"libcublas\.so\.12 is not found .* it needs NVIDIA's"):
        load_whisper(CTranslate2Config(device="cuda", device_index=1))
