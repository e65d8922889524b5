"""Who speaks when, among the speakers of each window?"""

from conch.component.parameters import NiceConfig
from conch.families.speakers.components import SegmentationComponent
from conch.triton.models import component_model

TritonPythonModel = component_model(SegmentationComponent, NiceConfig)
