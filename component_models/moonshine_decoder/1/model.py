"""Hidden states to n-best texts, or to the times of a text's words."""

from conch.families.moonshine.decoder import DecoderComponent, MoonshineDecoderConfig
from conch.triton.models import in_flight_model

TritonPythonModel = in_flight_model(DecoderComponent, MoonshineDecoderConfig)
