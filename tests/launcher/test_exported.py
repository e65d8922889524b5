"""Exported repositories in a real server, whose Python backend runs the networks."""

from pathlib import Path

import ctc_toys
import funasr_toys
import nemo_toys
import numpy as np
import onnxruntime
import pytest
import transducer_toys
import tritonclient.http
from asked_networks import as_network, asked, config_of, kind_of

from conch.cli import main
from conch.launcher import ServerConfig, TritonServer

pytestmark = [pytest.mark.server, pytest.mark.nightly]
MODEL = """\
from pathlib import Path

import onnxruntime
import triton_python_backend_utils as pb


class TritonPythonModel:
    def initialize(self, args):
        path = Path(args["model_repository"], args["model_version"], "model.onnx")
        self.network = onnxruntime.InferenceSession(path)

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        feed = {item.name(): item.as_numpy() for item in request.inputs()}
        names = [item.name for item in self.network.get_outputs()]
        pairs = zip(names, self.network.run(names, feed))
        return pb.InferenceResponse([pb.Tensor(*pair) for pair in pairs])
"""


def test_triton_takes_every_config_and_hands_the_network_its_tensors(tmp_path: Path) -> None:
    toys = [
        transducer_toys.offline(tmp_path / "icefall"),
        nemo_toys.tdt(tmp_path / "nemo"),
        ctc_toys.waveform(tmp_path / "wav2vec2"),
        funasr_toys.sense_voice(tmp_path / "sensevoice")[1],
        funasr_toys.paraformer(tmp_path / "paraformer", takes_hotwords=True)[0],
    ]
    repositories = []
    for number, toy in enumerate(toys):
        repository = tmp_path / f"made-{number}"
        command = ["models", "export-repository", str(toy), "-o", str(repository), "--cpu"]
        assert main(command) == 0
        repositories.append(repository)
    models = [path.parent for item in repositories for path in item.glob("*/config.pbtxt")]
    configs = {model: config_of(model) for model in models}
    for model in models:
        path = model / "config.pbtxt"
        path.write_text(path.read_text().replace('"onnxruntime"', '"python"'))
        (model / "1" / "model.py").write_text(MODEL)
    with TritonServer(ServerConfig(repositories)) as server:
        client = tritonclient.http.InferenceServerClient(server.http_url)
        for model, config in configs.items():
            network = onnxruntime.InferenceSession(model / "1" / "model.onnx")
            for batch in (1, 3) if config.max_batch_size else (1,):
                sent, inputs = asked(config, batch), []
                for item in config.input:
                    array = sent[item.name]
                    tensor = tritonclient.http.InferInput(item.name, array.shape, kind_of(item))
                    inputs.append(tensor.set_data_from_numpy(array))
                result = client.infer(model.name, inputs)
                expected = network.run(None, as_network(config, sent))
                for item, values in zip(config.output, expected, strict=True):
                    got = result.as_numpy(item.name)
                    wanted = (batch, 1) if item.HasField("reshape") else values.shape
                    assert got.shape == wanted
                    np.testing.assert_allclose(got.reshape(values.shape), values, atol=1e-4)
