"""Weights of both networks, drawn at random: nothing has to be fetched for the tests."""

import numpy as np

from conch.component import FloatArray

RANDOM = np.random.default_rng(7)


def drawn(*shape: int) -> FloatArray:
    fan_in = max(1, int(np.prod(shape[1:])))
    return np.asarray(RANDOM.standard_normal(shape) / np.sqrt(fan_in), np.float32)


def drawn_norm(name: str, size: int, *, is_affine: bool = True) -> dict[str, FloatArray]:
    found = {f"{name}.running_mean": drawn(size), f"{name}.running_var": 1 + drawn(size) ** 2}
    if is_affine:
        found |= {f"{name}.weight": 1 + 0.1 * drawn(size), f"{name}.bias": drawn(size)}
    return found


def drawn_segmentation() -> dict[str, FloatArray]:
    found = {
        "sincnet.conv1d.0.filterbank.low_hz_": RANDOM.uniform(0, 3000, (40, 1)).astype("f"),
        "sincnet.conv1d.0.filterbank.band_hz_": RANDOM.uniform(0, 1000, (40, 1)).astype("f"),
        "sincnet.conv1d.0.filterbank.window_": np.hamming(250)[:125].astype("f"),
        "classifier.weight": drawn(7, 128),
        "classifier.bias": drawn(7),
    }
    for name, size in (("wav_norm1d", 1), ("norm1d.0", 80), ("norm1d.1", 60), ("norm1d.2", 60)):
        found |= {f"sincnet.{name}.weight": 1 + 0.1 * drawn(size)}
        found |= {f"sincnet.{name}.bias": drawn(size)}
    for number, size in ((1, 80), (2, 60)):
        found[f"sincnet.conv1d.{number}.weight"] = drawn(60, size, 5)
        found[f"sincnet.conv1d.{number}.bias"] = drawn(60)
    for layer in range(2):
        for end in ("", "_reverse"):
            found[f"lstm.weight_ih_l{layer}{end}"] = drawn(512, 256 if layer else 60)
            found[f"lstm.weight_hh_l{layer}{end}"] = drawn(512, 128)
            found[f"lstm.bias_ih_l{layer}{end}"] = drawn(512)
            found[f"lstm.bias_hh_l{layer}{end}"] = drawn(512)
    for number, size in ((0, 256), (1, 128)):
        found[f"linear.{number}.weight"], found[f"linear.{number}.bias"] = (
            drawn(128, size),
            drawn(128),
        )
    return found


BLOCKS = ((1, 3, 1), (2, 2, 2), (3, 2, 2))
"""Number, layers and dilation; the model has more layers."""


def drawn_embedding() -> dict[str, FloatArray]:
    found = {"head.conv1.weight": drawn(32, 1, 3, 3), "head.conv2.weight": drawn(32, 32, 3, 3)}
    found |= drawn_norm("head.bn1", 32) | drawn_norm("head.bn2", 32)
    for block in ("layer1.0", "layer1.1", "layer2.0", "layer2.1"):
        for number in (1, 2):
            found[f"head.{block}.conv{number}.weight"] = drawn(32, 32, 3, 3)
            found |= drawn_norm(f"head.{block}.bn{number}", 32)
        if block.endswith("0"):
            found[f"head.{block}.shortcut.0.weight"] = drawn(32, 32, 1, 1)
            found |= drawn_norm(f"head.{block}.shortcut.1", 32)
    found["xvector.tdnn.linear.weight"] = drawn(128, 320, 5)
    found |= drawn_norm("xvector.tdnn.nonlinear.batchnorm", 128)
    size = 128
    for dense, layers, _ in BLOCKS:
        for layer in range(1, layers + 1):
            name = f"xvector.block{dense}.tdnnd{layer}"
            found |= drawn_norm(f"{name}.nonlinear1.batchnorm", size)
            found |= drawn_norm(f"{name}.nonlinear2.batchnorm", 128)
            found[f"{name}.linear1.weight"] = drawn(128, size, 1)
            found[f"{name}.cam_layer.linear_local.weight"] = drawn(32, 128, 3)
            for number, shape in ((1, (64, 128, 1)), (2, (32, 64, 1))):
                found[f"{name}.cam_layer.linear{number}.weight"] = drawn(*shape)
                found[f"{name}.cam_layer.linear{number}.bias"] = drawn(shape[0])
            size += 32
        found |= drawn_norm(f"xvector.transit{dense}.nonlinear.batchnorm", size)
        found[f"xvector.transit{dense}.linear.weight"] = drawn(size // 2, size, 1)
        size //= 2
    found |= drawn_norm("xvector.out_nonlinear.batchnorm", size)
    found["xvector.dense.linear.weight"] = drawn(192, 2 * size, 1)
    return found | drawn_norm("xvector.dense.nonlinear.batchnorm", 192, is_affine=False)
