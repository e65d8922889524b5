"""Models that a request names: one that recognises, by `model`, and text steps, by `post`.

A named model is a copy of the components of a decoder, with other weights. Each copy is a model of
the server, `COMPONENT.NAME`.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from conch.families import decoders, traits
from conch.families.family import Decoder
from conch.wire.entry_points import ALL_ENTRY_POINTS
from conch.wire.errors import OptionError

NamedModels = Mapping[str, Mapping[str, str]]
"""The models of the server that stand for components, by component and by the name of the model."""
MAX_POST = 8
_NAME = re.compile(r"(?!__)[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


def served_as(component: str, name: str) -> str:
    """Return what the server calls the component of a named model.

    >>> served_as("ctc_encoder", "mine")
    'ctc_encoder.mine'
    """
    return f"{component}.{name}"


def component_of(model: str) -> str:
    """Return the component that a model of the server is, or is a copy of."""
    return model.partition(".")[0]


def named_models(served: Iterable[str]) -> NamedModels:
    """Return the named models among those of a server."""
    declared, copies = traits(), dict[str, dict[str, str]]()
    for model in sorted(served):
        component, _, name = model.partition(".")
        if name and component in declared:
            copies.setdefault(name, {})[component] = model
    return copies


def decoders_of(components: Iterable[str]) -> tuple[Decoder, ...]:
    """Return the decoders of a named model with these components, its default first."""
    there = {*components}
    decoding = (item for item in decoders().values() if item.components)
    return tuple(item for item in decoding if there.issuperset(item.components))


def with_its_decoder(
    parameters: Mapping[str, Any], named: NamedModels, default: str = "", *, live: bool = False
) -> Mapping[str, Any]:
    """Return request parameters with the decoder of the named model that they choose.

    Where they choose neither, it is the `default` of the server; empty for those of the families.
    Raise an OptionError if there is no such model, or it does not do what the request needs.
    """
    name = parameters.get("model", "")
    if not name or not isinstance(name, str):
        return {"decoder": default, **parameters} if default else parameters
    if name not in named:
        there = "names a model that conch serve --model NAME=FOLDER adds, and this server has none"
        if named:
            there = f"takes {', '.join(sorted(named))} on this server"
        raise OptionError(f"option 'model' {there}; sent: {name!r:.100}")
    known = {item.name: item for item in decoders_of(named[name])}
    chosen = parameters.get("decoder", next(iter(known)))
    if chosen not in known:
        raise OptionError.of("decoder", f"{' or '.join(known)} with model {name}", chosen)
    if live and not named[name].keys() >= {*known[chosen].live}:
        raise OptionError(f"option 'model': {name} hears recordings alone, no live audio")
    return {**parameters, "decoder": chosen}


def no_text_steps() -> frozenset[str]:
    """Return Conch's own models that are no text steps: `post` must not reach them."""
    others = (name for name, component in traits().items() if component.step != "write")
    return frozenset((*ALL_ENTRY_POINTS, *others))


def post_models(names: str) -> tuple[str, ...]:
    """Return the models of the option `post`, in their order; commas separate the names."""
    models = tuple(name.strip() for name in names.split(",") if name.strip())
    if len(models) > MAX_POST:
        raise OptionError.of("post", f"at most {MAX_POST} models", len(models))
    for model in models:
        if not _NAME.fullmatch(model):
            takes = "names of models, with commas: letters, digits, '_', '.' and '-'"
            raise OptionError.of("post", takes, model)
        if model in no_text_steps():
            raise OptionError(
                f"option 'post' takes models from text to text; {model} is none, and is not called "
                "by name"
            )
    return models
