"""A text step for tests: a component, its option, and no code of its own in Conch."""

from dataclasses import dataclass

from conch.families.family import ComponentInfo, Family, Rewriter
from conch.families.options import option

SHOUTER = ComponentInfo(name="shouter", title="Shouting", step="write")


@dataclass(frozen=True, kw_only=True)
class ShoutOptions:
    shout: bool = option(False, "an exclamation mark behind the text")


FAMILY = Family(
    name="toy_step",
    title="Shouting",
    components=(SHOUTER,),
    options=ShoutOptions,
    rewriters=(Rewriter(component=SHOUTER.name, option="shout"),),
)
