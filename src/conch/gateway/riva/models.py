"""The models and voices of a gateway, as clients of Riva list them."""

from conch.gateway.errors import ApiError
from conch.gateway.models import OPENAI_MODELS, SPEECH_MODELS, options_of, servable, unknown_model
from conch.gateway.riva.calls import RpcCall
from conch.gateway.state import Gateway
from conch.gateway.voicing import served_voices
from conch.wire.errors import OptionError
from conch.wire.options import RecognitionOptions

VOICE_MODEL = "Conch"
"""Model of all voices: clients name a voice as `model.voice`."""


async def recognition_config(call: RpcCall) -> None:
    """Answer with the models; each hears recordings and streams, which clients list apart."""
    gateway = call.gateway
    asked = (await call.request()).model_name
    others = (*OPENAI_MODELS, *SPEECH_MODELS[1:])
    names = [name for name in await servable(gateway) if name not in others]
    if asked and asked not in names:
        raise unknown_model(asked, gateway.model_aliases, names)
    response = call.method.response()
    for name in [asked] if asked else names:
        for kind in ("online", "offline"):
            config = response.model_config.add(model_name=name)
            config.parameters.update(
                type=kind, streaming=str(kind == "online"), language_code=_languages(gateway, name)
            )
    await call.send(response)


def _languages(gateway: Gateway, name: str) -> str:
    """Return the language of a model, or `multi`."""
    options = options_of(name, gateway.model_aliases)
    if len(gateway.config.languages) == 1:
        return gateway.config.languages[0]
    try:
        RecognitionOptions.parse({**options, "language": "de"})
    except OptionError:
        return "en"
    return "multi"


async def synthesis_config(call: RpcCall) -> None:
    asked = (await call.request()).model_name
    if asked not in ("", VOICE_MODEL):
        raise ApiError(404, f"no model {asked!r:.80}; this server has {VOICE_MODEL}")
    response = call.method.response()
    by_language: dict[str, list[str]] = {}
    for voice in await served_voices(call.gateway):
        by_language.setdefault(voice.language, []).append(voice.name)
    for language, names in by_language.items():
        config = response.model_config.add(model_name=VOICE_MODEL)
        config.parameters.update(
            language_code=language, voice_name=VOICE_MODEL, subvoices=",".join(names)
        )
    await call.send(response)
