"""Map a request's options to the components that it needs, and a component to its options."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from conch.families import (
    all_families,
    decoders,
    default_decoders,
    likening,
    rescorers,
    rewriters,
    synthesizers,
    traits,
)
from conch.families.family import TO_SPEECH, TO_TEXT, Need
from conch.families.options import holds
from conch.wire.errors import MissingModelError, OptionError
from conch.wire.named_models import decoders_of, named_models, post_models
from conch.wire.options import RecognitionOptions
from conch.wire.synthesis import synthesizer_of

LIVE_MODES = ("streaming", "two_pass")

PATHS: Mapping[str, Mapping[str, Any]] = {
    **{name: {"decoder": name} for name, item in decoders().items() if item.components},
    **{mode: {"mode": mode} for mode in LIVE_MODES},
}
"""Options of each path, by name: a value of `decoder` or of `mode`."""

RESCORERS: Mapping[str, str] = rescorers()
"""Component of each value of the option `rescorer`; auto falls back to `rescorer`."""


def components_of(options: RecognitionOptions) -> Mapping[str, str]:
    """Return the components that a request needs, each with the option that needs it.

    Audio without speech calls fewer. `coverage` also calls the CTC model if it is loaded.
    """
    needs = _needed(options, "recognition")
    if options.mode in LIVE_MODES:
        live = decoders()[options.of_first_pass().decoder].live
        needs |= dict.fromkeys(live, f"mode={options.mode}")
    if options.mode != "streaming":
        segment = decoders()[options.decoder].components
        needs |= dict.fromkeys(segment, f"decoder={options.decoder}")
    return {**needs, **rescoring_components_of(options), **text_components_of(options)}


def components_to_serve(
    parameters: Mapping[str, Any],
    *,
    live: bool = False,
    lacking: Collection[str] = (),
    chosen: Collection[str] = (),
) -> Mapping[str, str]:
    """Return the components of a server that is to answer requests; see `options_to_serve`."""
    return components_of(options_to_serve(parameters, live=live, lacking=lacking, chosen=chosen))


def options_to_serve(
    parameters: Mapping[str, Any],
    *,
    live: bool = False,
    lacking: Collection[str] = (),
    chosen: Collection[str] = (),
) -> RecognitionOptions:
    """Return what requests with these parameters mean for a server that is started for them.

    A decoder that they leave open is the first one of which no component is in `lacking`, and each
    in `chosen` if that is not empty. Without such a one it is that of `decoder_of_chosen`, or else
    the default.
    """
    candidates = [*RecognitionOptions.candidates(parameters, live=live)]

    def fits(options: RecognitionOptions) -> bool:
        pair = set(decoders()[options.decoder].components)
        return pair.isdisjoint(lacking) and (not chosen or pair.issubset(chosen))

    if (fitting := next(filter(fits, candidates), None)) is not None:
        return fitting
    for name in default_decoders(candidates[0].value) if "decoder" not in parameters else ():
        if chosen and set(decoders()[name].components).issubset(chosen):
            # The error says what it does not take; the text of another one is not wanted.
            try:
                return RecognitionOptions.parse({**parameters, "decoder": name}, live=live)
            except OptionError as error:
                raise OptionError(f"the chosen model is of decoder={name}: {error}") from None
    decoder = decoder_of_chosen(chosen)
    if decoder and "decoder" not in parameters:
        return RecognitionOptions.parse({**parameters, "decoder": decoder}, live=live)
    return candidates[0]


def decoder_of_chosen(chosen: Collection[str]) -> str:
    """Return the decoder of the components whose weights somebody chose; empty for a default one.

    It writes the text on their server where a request leaves the decoder open.
    """
    fitting = decoders_of(chosen)
    return fitting[0].name if fitting and all(item.default_when is None for item in fitting) else ""


def text_components_of(options: RecognitionOptions) -> Mapping[str, str]:
    """Return the models that rewrite the text at the end, each with the option that needs it."""
    needs = {
        item.component: f"{item.option}=true"
        for item in options.rewriters
        # With two passes also for utterances that the second one has no time for.
        if not (item.adds_punctuation and options.writes_punctuation) or options.mode == "two_pass"
    }
    for model in post_models(options.post):
        needs.setdefault(model, f"post={model}")
    return needs


def rescoring_components_of(options: RecognitionOptions) -> Mapping[str, str]:
    """Return components that score hypotheses again, with their options; auto counts as neural."""
    needs = _needed(options, "rescoring")
    if options.accuracy != "fast":
        return dict.fromkeys(needs, f"accuracy={options.accuracy}")
    return needs


def components_of_path(name: str, chosen: Collection[str] = ()) -> tuple[str, ...]:
    """Return the components of a path, by its name in `PATHS`; see `components_to_serve`."""
    options = PATHS[name]
    with suppress(OptionError):  # the chosen model cannot go this path
        return tuple(components_to_serve(options, live="mode" in options, chosen=chosen))
    return tuple(components_to_serve(options, live="mode" in options))


@dataclass(frozen=True, slots=True)
class Component:
    """A component of Conch: a model that requests call."""

    name: str
    title: str
    """Name for people."""
    family: str
    """Components of one family work together in a path."""
    step: str
    """Step in a path. Steps follow each other in the order of the list."""
    needed: str | None = None
    """The option for which the request needs it, such as decoder=ctc; null if it does not."""


def components_for(options: RecognitionOptions) -> list[Component]:
    """Return all components, each with the option that needs it; last the models of `post`."""
    needs = dict(components_of(options))
    listed = _listed(needs, TO_TEXT)
    return [*listed, *(Component(name, name, name, "write", why) for name, why in needs.items())]


def components_that_speak(voice: str) -> list[Component]:
    return _listed(dict.fromkeys(synthesizer_of(voice).components, f"voice={voice}"), TO_SPEECH)


def _listed(needs: dict[str, str], steps: Sequence[str]) -> list[Component]:
    """Return the components of some steps, in their order, and take them out of what is needed."""
    components = [
        Component(
            component.name,
            component.title,
            f"{family.name}_streaming" if component.is_stream else family.name,
            component.step,
            needs.pop(component.name, None),
        )
        for family in all_families()
        for component in family.components
        if component.step in steps
    ]
    return sorted(components, key=lambda item: steps.index(item.step))


def missing_all(needs: Mapping[str, str]) -> MissingModelError:
    """Return the error of a request whose `needs`, options by component, the server lacks."""
    first, *others = needs
    if not others:
        return missing(first)
    options = " and ".join(dict.fromkeys(needs.values()))
    return MissingModelError(
        f"models {', '.join(needs)} are not loaded on this server, for {options}: name them "
        "in conch serve --models, or see in the server's log why they have ended",
        first,
    )


def missing(model: str, served: Iterable[str] = ()) -> MissingModelError:
    """Return the error of a request that needs a missing component; name `served` copies of it."""
    needed = " or ".join(needed_for(model))
    component = traits().get(model)
    named = [name for name, copies in named_models(served).items() if model in copies]
    others = "".join(f"model={name} has one, " for name in named)
    weights = ""
    if component and (package := component.package) and package.command:
        restart = "" if package.is_of_user else " and a restart of the server"
        weights = f"its weights come with {package.command}{restart}, "
        if not package.lacking:
            weights = "its weights are here: restart the server, "
    return MissingModelError(
        f"model {model} is not loaded on this server{needed and f', and {needed} needs it'}: "
        f"{others}{weights}name it in conch serve --models, or see in the server's log why it has "
        "ended",
        model,
    )


def missing_post(model: str) -> MissingModelError:
    """Return the error of a request whose option `post` names a model that the server lacks."""
    return MissingModelError(
        f"option 'post' names the model {model}, which is not loaded on this server: have it in a "
        "model repository, which conch serve --add-model-repository serves next to Conch's own",
        model,
    )


def _all_needs() -> Iterator[Need]:
    return (need for family in all_families() for need in family.needs)


def _needed(options: RecognitionOptions, purpose: str) -> dict[str, str]:
    return {
        model: need.reason
        for need in _all_needs()
        if need.purpose == purpose and holds(need.when, options.value)
        for model in need.components
    }


def needed_for(model: str) -> tuple[str, ...]:
    """Return the options that need a component; empty if no path calls it."""
    known = decoders().values()
    reasons = [f"decoder={decoder.name}" for decoder in known if model in decoder.components]
    if any(model in decoder.live for decoder in known):
        reasons += [f"mode={mode}" for mode in LIVE_MODES]
    reasons += [need.reason for need in _all_needs() if model in need.components]
    reasons += [f"{name}=true" for name, it in rewriters().items() if it.component == model]
    speaking = (item for item in synthesizers().values() if model in item.components)
    reasons += [f"voice={item.voices[0].name if item.voices else 'NAME'}" for item in speaking]
    reasons += ["reference"] * (model == likening().voice_style)
    reasons += ["fitting"] * (model == likening().gradient)
    return tuple(dict.fromkeys(reasons))
