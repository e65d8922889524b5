"""The networks of a transducer on ONNX Runtime."""

import onnxruntime

from conch.component.onnx import open_network, session_options
from conch.families.search.folders import FolderConfig, folder_of
from conch.families.search.graphs import EncoderGraph
from conch.families.transducer.folder import Transducer, read_transducer


def opened_folder(config: FolderConfig) -> Transducer:
    return folder_of(config, "transducer", "is no transducer", read_transducer)


def opened_part(found: Transducer, part: str, threads: int) -> onnxruntime.InferenceSession:
    options = session_options(threads, keeps_memory=False)
    return open_network(f"the {part} of a transducer", found.parts[part], options)


def opened_encoder(found: Transducer, threads: int) -> EncoderGraph:
    return EncoderGraph(found.encoder, "the encoder of a transducer", threads)
