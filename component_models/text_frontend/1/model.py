"""What sounds does a sentence have?"""

from conch.families.hibari.front_end import FrontEnd, FrontEndConfig
from conch.triton.models import component_model

TritonPythonModel = component_model(FrontEnd, FrontEndConfig)
