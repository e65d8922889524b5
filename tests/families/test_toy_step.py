"""A new text step is a folder and one line: what its option asks for happens to every text."""

import numpy as np
import pytest
from plain_components import PlainComponents
from plain_recognizer import recognized
from plain_streams import audio, streaming

import conch.families
from conch.component import bytes_array
from conch.families import FAMILIES
from conch.wire.errors import MissingModelError
from conch.wire.needs import components_for, components_of, needed_for, text_components_of
from conch.wire.options import RecognitionOptions
from conch.wire.result import Transcript
from tests.families.toy_step import FAMILY


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conch.families, "FAMILIES", (*FAMILIES, FAMILY))


class ShoutingComponents(PlainComponents):
    def shouter(self, inputs, parameters):
        text = inputs["text"].item().decode()
        end = len(text)
        spans = np.array([[end, end, end, end + 1]], np.int32)
        return {"text": bytes_array([f"{text}!"]), "spans": spans}


def recognised(
    components: PlainComponents | None = None, **options: object
) -> tuple[Transcript, PlainComponents]:
    components = components or ShoutingComponents()
    return recognized(components, audio("..11.."), **options), components


def test_it_rewrites_the_text_of_a_recording_where_nothing_else_does() -> None:
    plain, components = recognised()
    assert "shouter" not in components.calls
    found, components = recognised(shout=True)
    assert found.text == f"{plain.text}!", "the option has no effect"
    assert components.calls.count("shouter") == 1


def test_it_comes_after_those_that_conch_ships() -> None:
    options = RecognitionOptions.parse({"shout": True, "punctuate": True, "itn": True})
    order = [item.option for family in FAMILIES for item in family.rewriters]
    assert [item.option for item in options.rewriters] == [*order, "shout"]


@pytest.mark.parametrize("mode", ["streaming", "two_pass"])
async def test_it_rewrites_the_text_of_a_live_utterance(mode: str) -> None:
    async with streaming(ShoutingComponents(), mode=mode, shout=True) as (client, components):
        await client.send(audio("12"))
        final = await client.send(audio("..."), ends=True)
    assert final.text.endswith("!") and components.calls.count("shouter") == 1


def test_its_component_is_needed_where_its_option_is_true() -> None:
    asked, plain = (RecognitionOptions.parse(sent) for sent in ({"shout": True}, {}))
    assert text_components_of(asked) == {"shouter": "shout=true"}
    assert "shouter" in components_of(asked) and "shouter" not in components_of(plain)
    assert needed_for("shouter") == ("shout=true",)
    (listed,) = [item for item in components_for(asked) if item.name == "shouter"]
    assert (listed.step, listed.needed) == ("write", "shout=true")


def test_without_its_component_a_request_for_it_is_refused() -> None:
    components = ShoutingComponents()
    components.missing.add("shouter")
    with pytest.raises(MissingModelError, match=r"^model shouter .* shout=true needs it"):
        recognised(components, shout=True)
