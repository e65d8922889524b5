"""CAM++ for training, over the weights of its package by their names.

`conch.families.speakers.graphs.embedding` is the same network for ONNX Runtime.
"""

import re
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

TUNED = r"head\.|xvector\.tdnn\.|xvector\.(block|transit)1\."
"""What is trained: what hears single bands, and the first of the dense blocks. Of the rest, only
scale and bias of the batch norms, whose statistics stay."""


class Embedding(nn.Module):
    """Features FP32 `[rows, frames, 80]`, at most 200 frames, to embeddings `[rows, size]`."""

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        floats = {name: item.clone() for name, item in weights.items() if item.is_floating_point()}
        self._weights = nn.ParameterDict(
            {_key(name): nn.Parameter(value, _is_tuned(name)) for name, value in floats.items()}
        )
        self._names = tuple(floats)

    @property
    def tuned(self) -> dict[str, nn.Parameter]:
        return {name: self._weight(name) for name in self._names if _is_tuned(name)}

    def forward(self, features: Tensor) -> Tensor:
        """Return the embeddings, not of unit length."""
        value = features.transpose(1, 2)[:, None]
        value = self._conv_2d(value, "head.conv1", "head.bn1").relu()
        for name in ("layer1.0", "layer1.1", "layer2.0", "layer2.1"):
            value = self._residual(value, f"head.{name}")
        value = self._conv_2d(value, "head.conv2", "head.bn2", stride=2).relu().flatten(1, 2)
        value = self._conv(value, "xvector.tdnn.linear", stride=2, padding=2)
        value = self._norm(value, "xvector.tdnn.nonlinear.batchnorm").relu()
        for block, dilation in ((1, 1), (2, 2), (3, 2)):
            dense = f"xvector.block{block}.tdnnd"
            pattern = re.escape(dense) + r"\d+\.linear1\.weight"
            for number in range(1, 1 + sum(bool(re.fullmatch(pattern, n)) for n in self._names)):
                value = self._dense(value, f"{dense}{number}", dilation)
            value = self._norm(value, f"xvector.transit{block}.nonlinear.batchnorm").relu()
            value = self._conv(value, f"xvector.transit{block}.linear")
        value = self._norm(value, "xvector.out_nonlinear.batchnorm").relu()
        value = torch.cat([value.mean(2), value.std(2)], 1)[..., None]
        value = self._conv(value, "xvector.dense.linear")
        return self._norm(value, "xvector.dense.nonlinear.batchnorm")[..., 0]

    def _weight(self, name: str) -> nn.Parameter:
        weight: nn.Parameter = self._weights[_key(name)]
        return weight

    def _optional(self, name: str) -> nn.Parameter | None:
        return self._weight(name) if name in self._names else None

    def _conv(self, value: Tensor, name: str, **shape: int) -> Tensor:
        bias = self._optional(f"{name}.bias")
        return functional.conv1d(value, self._weight(f"{name}.weight"), bias, **shape)

    def _norm(self, value: Tensor, name: str) -> Tensor:
        mean, variance = (self._weight(f"{name}.running_{part}") for part in ("mean", "var"))
        scale, bias = (self._optional(f"{name}.{part}") for part in ("weight", "bias"))
        return functional.batch_norm(value, mean, variance, scale, bias)

    def _conv_2d(self, value: Tensor, conv: str, norm: str, stride: int = 1) -> Tensor:
        kernel = self._weight(f"{conv}.weight")
        padding = kernel.shape[2] // 2
        value = functional.conv2d(value, kernel, stride=(stride, 1), padding=padding)
        return self._norm(value, norm)

    def _residual(self, value: Tensor, name: str) -> Tensor:
        stride = 2 if f"{name}.shortcut.0.weight" in self._names else 1
        inner = self._conv_2d(value, f"{name}.conv1", f"{name}.bn1", stride).relu()
        inner = self._conv_2d(inner, f"{name}.conv2", f"{name}.bn2")
        if stride > 1:
            value = self._conv_2d(value, f"{name}.shortcut.0", f"{name}.shortcut.1", stride)
        return (value + inner).relu()

    def _dense(self, value: Tensor, name: str, dilation: int) -> Tensor:
        inner = self._norm(value, f"{name}.nonlinear1.batchnorm").relu()
        inner = self._conv(inner, f"{name}.linear1")
        inner = self._norm(inner, f"{name}.nonlinear2.batchnorm").relu()
        shape = {"padding": dilation, "dilation": dilation}
        local = self._conv(inner, f"{name}.cam_layer.linear_local", **shape)
        # The mean of all frames and that of the only segment.
        mask = self._conv(2 * inner.mean(2, keepdim=True), f"{name}.cam_layer.linear1").relu()
        mask = self._conv(mask, f"{name}.cam_layer.linear2").sigmoid()
        return torch.cat([value, local * mask], 1)


def _key(name: str) -> str:
    return name.replace(".", "|")


def _is_tuned(name: str) -> bool:
    if "running" in name:
        return False
    return bool(re.match(TUNED, name)) or "batchnorm" in name
