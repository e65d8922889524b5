"""What does each voice sound like?"""

from conch.component.parameters import NiceConfig
from conch.families.speakers.components import EmbeddingComponent
from conch.triton.models import component_model

TritonPythonModel = component_model(EmbeddingComponent, NiceConfig)
