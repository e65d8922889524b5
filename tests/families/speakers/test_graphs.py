"""The graphs against PyTorch, with weights drawn at random."""

import numpy as np
import onnxruntime
import pytest
import torch
from speaker_weights import BLOCKS, drawn
from torch.nn import functional as F

from conch.families.speakers import graphs
from conch.families.speakers.components import BANDS, fbank


def run(model, **feed: np.ndarray) -> np.ndarray:
    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, feed)[0]


def test_the_segmentation_is_that_of_pytorch(segmentation_weights):
    weights = {name: torch.tensor(value) for name, value in segmentation_weights.items()}

    def normed(value, name):
        parts = (weights[f"sincnet.{name}.{part}"] for part in ("weight", "bias"))
        return F.instance_norm(value, None, None, *parts)

    bank = [
        segmentation_weights[f"sincnet.conv1d.0.filterbank.{name}_"]
        for name in ("low_hz", "band_hz", "window")
    ]
    waveform = drawn(2, 12_000)
    value = normed(torch.tensor(waveform)[:, None], "wav_norm1d")
    value = F.conv1d(value, torch.tensor(graphs.sinc_filters(*bank)), stride=10).abs()
    for number in range(3):
        if number:
            kernel = (weights[f"sincnet.conv1d.{number}.{part}"] for part in ("weight", "bias"))
            value = F.conv1d(value, *kernel)
        value = F.leaky_relu(normed(F.max_pool1d(value, 3), f"norm1d.{number}"))
    lstm = torch.nn.LSTM(60, 128, 2, bidirectional=True, batch_first=True)
    lstm.load_state_dict({name[5:]: weights[name] for name in weights if name.startswith("lstm.")})
    value, _ = lstm(value.transpose(1, 2))
    for name in ("linear.0", "linear.1"):
        value = F.leaky_relu(F.linear(value, weights[f"{name}.weight"], weights[f"{name}.bias"]))
    value = F.linear(value, weights["classifier.weight"], weights["classifier.bias"])
    expected = F.log_softmax(value, -1).detach().numpy()
    found = run(graphs.segmentation(segmentation_weights), waveform=waveform)
    assert found.shape == (2, (12_000 - 991) // 270 + 1, 7)
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_a_sinc_filter_passes_its_band():
    low, band = np.array([[950.0]]), np.array([[450.0]])
    even, odd = graphs.sinc_filters(low, band, np.hamming(250)[:125])[:, 0]
    gains = np.abs(np.fft.rfft([even, odd], 16_000))
    for gain in gains:
        inside, outside = gain[1050:1450], np.concatenate((gain[:900], gain[1600:]))
        assert inside.min() > 20 * outside.max()
    np.testing.assert_allclose(even, even[::-1], atol=1e-6)
    np.testing.assert_allclose(odd, -odd[::-1], atol=1e-6)


@pytest.mark.parametrize("frames", [40, 148, 198])
def test_the_embedding_is_that_of_pytorch(embedding_weights, frames):
    features = drawn(3, frames, BANDS)
    expected = torch_embedding(
        {name: torch.tensor(value) for name, value in embedding_weights.items()}, features
    )
    found = run(graphs.embedding(embedding_weights), features=features)
    np.testing.assert_allclose(found, expected.numpy(), atol=2e-4)


def torch_embedding(weights: dict[str, torch.Tensor], features: np.ndarray) -> torch.Tensor:
    """Return CAM++ as of its paper, with a mean for each segment of 100 frames."""

    def norm(value, name):
        parts = ("running_mean", "running_var", "weight", "bias")
        return F.batch_norm(value, *(weights.get(f"{name}.{part}") for part in parts))

    def conv_2d(value, name, bn, stride=1, padding=1):
        value = F.conv2d(value, weights[f"{name}.weight"], stride=(stride, 1), padding=padding)
        return norm(value, bn)

    value = torch.tensor(features).transpose(1, 2)[:, None]
    value = conv_2d(value, "head.conv1", "head.bn1").relu()
    for block in ("head.layer1.0", "head.layer1.1", "head.layer2.0", "head.layer2.1"):
        stride = 2 if block.endswith("0") else 1
        inner = conv_2d(value, f"{block}.conv1", f"{block}.bn1", stride).relu()
        inner = conv_2d(inner, f"{block}.conv2", f"{block}.bn2")
        if stride == 2:
            value = conv_2d(value, f"{block}.shortcut.0", f"{block}.shortcut.1", 2, 0)
        value = (inner + value).relu()
    value = conv_2d(value, "head.conv2", "head.bn2", 2).relu().flatten(1, 2)
    value = F.conv1d(value, weights["xvector.tdnn.linear.weight"], stride=2, padding=2)
    value = norm(value, "xvector.tdnn.nonlinear.batchnorm").relu()
    for dense, layers, dilation in BLOCKS:
        for layer in range(1, layers + 1):
            name = f"xvector.block{dense}.tdnnd{layer}"
            inner = norm(value, f"{name}.nonlinear1.batchnorm").relu()
            inner = F.conv1d(inner, weights[f"{name}.linear1.weight"])
            inner = norm(inner, f"{name}.nonlinear2.batchnorm").relu()
            kernel = weights[f"{name}.cam_layer.linear_local.weight"]
            local = F.conv1d(inner, kernel, padding=dilation, dilation=dilation)
            segments = F.avg_pool1d(inner, 100, 100, ceil_mode=True)
            segments = segments.repeat_interleave(100, -1)[..., : inner.shape[-1]]
            mask = inner.mean(-1, keepdim=True) + segments
            for number in (1, 2):
                part = f"{name}.cam_layer.linear{number}"
                mask = F.conv1d(mask, weights[f"{part}.weight"], weights[f"{part}.bias"])
                mask = mask.relu() if number == 1 else mask.sigmoid()
            value = torch.cat((value, local * mask), 1)
        value = norm(value, f"xvector.transit{dense}.nonlinear.batchnorm").relu()
        value = F.conv1d(value, weights[f"xvector.transit{dense}.linear.weight"])
    value = norm(value, "xvector.out_nonlinear.batchnorm").relu()
    value = torch.cat((value.mean(-1), value.std(-1)), 1)[..., None]
    value = F.conv1d(value, weights["xvector.dense.linear.weight"])
    return norm(value, "xvector.dense.nonlinear.batchnorm")[..., 0]


def test_filter_banks_are_those_of_kaldis_formulas():
    """One frame, written out: DC, pre-emphasis, Povey's window, power, triangles in mel."""
    waveform = drawn(1000)
    samples = waveform[320:720].astype(np.float64) * 32768
    samples -= samples.mean()
    samples = samples - 0.97 * np.concatenate((samples[:1], samples[:-1]))
    samples *= (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(400) / 399)) ** 0.85
    power = np.abs(np.fft.rfft(samples, 512)) ** 2

    def mel(hertz):
        return 1127 * np.log(1 + hertz / 700)

    width = (mel(8000) - mel(20)) / 81
    expected = []
    for band in range(BANDS):
        left = mel(20) + band * width
        shares = [
            max(
                0.0,
                min((mel(k * 31.25) - left) / width, (left + 2 * width - mel(k * 31.25)) / width),
            )
            for k in range(256)
        ]
        expected.append(np.log(max(np.dot(shares, power[:256]), 1.1920929e-07)))
    found = fbank(waveform)
    assert found.shape == (4, BANDS)
    np.testing.assert_allclose(found[2], expected, atol=1e-3)
    assert fbank(waveform[:399]).shape == (0, BANDS)
