"""The models that work on text after recognition, and the names of the option `post`."""

import re

from conch.families import traits
from conch.wire.entry_points import ENTRY_POINTS, SYNTHESIS
from conch.wire.errors import OptionError
from conch.wire.limits import clipped

MAX_POST = 8
_NAME = re.compile(r"(?!__)[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


def no_text_steps() -> frozenset[str]:
    """Return Conch's own models that are no text steps: `post` must not reach them."""
    others = (name for name, component in traits().items() if component.step != "write")
    return frozenset((*ENTRY_POINTS, *SYNTHESIS, *others))


def post_models(names: str) -> tuple[str, ...]:
    """Return the models of the option `post`, in their order; commas separate the names."""
    models = tuple(name.strip() for name in names.split(",") if name.strip())
    if len(models) > MAX_POST:
        raise OptionError(f"option 'post' takes at most {MAX_POST} models; sent: {len(models)}")
    for model in models:
        if not _NAME.fullmatch(model):
            raise OptionError(
                "option 'post' takes names of models, with commas: letters, digits, '_', '.' and "
                f"'-'; sent: {clipped(model)!r}"
            )
        if model in no_text_steps():
            raise OptionError(
                f"option 'post' takes models from text to text; {model} is none, and is not called "
                "by name"
            )
    return models
