"""EfficientNet-Lite0: classifies an image into ImageNet's thousand classes.

Written from the papers: inverted bottlenecks (MobileNetV2, arXiv 1801.04381) in EfficientNet's layout (arXiv
1905.11946); Lite uses ReLU6, no squeeze-and-excitation, and does not scale stem and head. Padding is TensorFlow's
``SAME``, asymmetric for stride 2.
"""

from typing import cast

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from penstock.domain.errors import InvalidField
from penstock.worker.engines.torch import images
from penstock.worker.engines.torch.handler import Features, Given, Handler, Model, Prepared

SIDE = 224
CLASSES = 1000
IMAGE, PIXELS, SCORES = "image", "pixels", "scores"
_MEAN, _STD = 127.0, 128.0
_EPSILON = 1e-3
_LAYOUT = torch.channels_last
"""Channels last: measured on one CPU thread, 0.73 of the other layout's time for one image, 0.51 per image for 16."""
_STAGES = (
    # expansion, channels, repeats, stride, kernel
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)
_STEM, _HEAD = 32, 1280


class _Convolution(nn.Conv2d):
    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__(inputs, outputs, kernel, stride, groups=groups, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return n / stride pixels, rounded up, for a side of n."""
        sides = []
        for size in (x.shape[-1], x.shape[-2]):
            missing = max(0, (-(-size // self.stride[0]) - 1) * self.stride[0] + self.kernel_size[0] - size)
            sides += [missing // 2, missing - missing // 2]
        if sides[0] == sides[1] and sides[2] == sides[3]:
            return functional.conv2d(x, self.weight, None, self.stride, (sides[2], sides[0]), 1, self.groups)
        return functional.conv2d(functional.pad(x, sides), self.weight, None, self.stride, 0, 1, self.groups)


class _Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, *, expansion: int, stride: int, kernel: int) -> None:
        super().__init__()
        wide = inputs * expansion
        if expansion > 1:
            self._expand_conv = _Convolution(inputs, wide, 1)
            self._bn0 = nn.BatchNorm2d(wide, eps=_EPSILON)
        self._depthwise_conv = _Convolution(wide, wide, kernel, stride, groups=wide)
        self._bn1 = nn.BatchNorm2d(wide, eps=_EPSILON)
        self._project_conv = _Convolution(wide, outputs, 1)
        self._bn2 = nn.BatchNorm2d(outputs, eps=_EPSILON)
        self._expands, self._adds = expansion > 1, stride == 1 and inputs == outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.relu6(self._bn0(self._expand_conv(x))) if self._expands else x
        y = functional.relu6(self._bn1(self._depthwise_conv(y)))
        y = self._bn2(self._project_conv(y))
        return x + y if self._adds else cast("torch.Tensor", y)


class EfficientNetLite(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self._conv_stem = _Convolution(3, _STEM, 3, 2)
        self._bn0 = nn.BatchNorm2d(_STEM, eps=_EPSILON)
        blocks, inputs = [], _STEM
        for expansion, channels, repeats, stride, kernel in _STAGES:
            for repeat in range(repeats):
                step = 1 if repeat else stride
                blocks.append(_Block(inputs, channels, expansion=expansion, stride=step, kernel=kernel))
                inputs = channels
        self._blocks = nn.ModuleList(blocks)
        self._conv_head = _Convolution(inputs, _HEAD, 1)
        self._bn1 = nn.BatchNorm2d(_HEAD, eps=_EPSILON)
        self._fc = nn.Linear(_HEAD, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.relu6(self._bn0(self._conv_stem(x)))
        for block in self._blocks:
            x = block(x)
        x = functional.relu6(self._bn1(self._conv_head(x)))
        return cast("torch.Tensor", self._fc(x.mean((2, 3))))


class ImageClassifier(Handler):
    """Input ``image`` (encoded) or ``pixels`` (normalised colour planes)."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        with torch.device("meta"):
            network = EfficientNetLite()
        network.load_state_dict(model.weights(), assign=True)
        network.to(memory_format=_LAYOUT)
        self._network = network.eval().requires_grad_(requires_grad=False)

    def preprocess(self, given: Given) -> Prepared:
        planes = _planes(given)
        return Prepared(
            features={PIXELS: planes.to(self.model.dtype)}, tokens=self.model.settings.item_tokens, cost=SIDE * SIDE
        )

    def forward(self, batch: Features) -> Features:
        return {SCORES: self._network(batch[PIXELS].contiguous(memory_format=_LAYOUT)).float().softmax(-1)}

    def example(self) -> Given:
        return {PIXELS: torch.zeros(3, SIDE, SIDE)}


def _planes(given: Given) -> torch.Tensor:
    if isinstance(given, str | bytes):
        image = images.pixels(images.encoded(given, IMAGE), SIDE, IMAGE)
        planes = torch.from_numpy(np.array(image, dtype=np.float32)).permute(2, 0, 1)
        return (planes - _MEAN) / _STD
    if not isinstance(given, dict) or PIXELS not in given:
        raise InvalidField(f"give {IMAGE} (BYTES), or {PIXELS} (FP32 of [-1, 3, {SIDE}, {SIDE}])", param=IMAGE)
    planes = given[PIXELS]
    if not bool(torch.isfinite(planes).all()):
        raise InvalidField(f"{PIXELS} holds NaN or infinities", param=PIXELS)
    return cast("torch.Tensor", planes.float())
