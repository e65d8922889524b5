"""Families that speak: the tensors of an acoustic model and its vocoder."""

from conch.families.family import ComponentInfo, TensorInfo, WeightsPackage


def acoustic(name: str, package: WeightsPackage) -> ComponentInfo:
    return ComponentInfo(
        name=name,
        role="the sounds of a sentence to what the voice does over time",
        title="Acoustic model",
        step="voice",
        inputs=(
            TensorInfo("tokens", "INT32", (-1,), "of `text_frontend`, at least one"),
            TensorInfo("speed", "FP32", (1,), "0.25 to 4; 1 is the voice's own"),
        ),
        outputs=(
            TensorInfo(
                "latents", "FP32", (-1, -1), "[frames, channels] for the `vocoder` of the family"
            ),
            TensorInfo("durations", "INT32", (-1,), "frames of each token"),
        ),
        parameters={"voice": str, "seed": int},
        is_one_by_one=True,
        package=package,
    )


def vocoder(name: str, package: WeightsPackage) -> ComponentInfo:
    return ComponentInfo(
        name=name,
        role="what the voice does to its waveform",
        title="Vocoder",
        step="sound",
        inputs=(
            TensorInfo("latents", "FP32", (-1, -1), "frames of `acoustic`, with those around them"),
            TensorInfo(
                "context",
                "INT32",
                (3,),
                "frames in front that are not spoken, frames behind, and the place of the first "
                "frame in the whole text, by which noise is drawn",
            ),
        ),
        outputs=(TensorInfo("waveform", "FP32", (-1,), "samples of the spoken frames"),),
        parameters={"voice": str, "seed": int},
        is_one_by_one=True,
        package=package,
    )
