"""A family for tests that works on whole recordings."""

from conch.families.family import Family, FamilyHooks, Hook

NAME, COUNT = (
    f"tests.families.toy_speakers.speakers:{name}" for name in ("name_speakers", "count")
)

FAMILY = Family(
    name="toy_speakers",
    title="Speakers",
    hooks=FamilyHooks(
        after_recording=(
            Hook(function=NAME, when={"word_timestamps": True}),
            Hook(function=COUNT, when={"word_timestamps": True}),
            Hook(function=COUNT, when={"word_timestamps": False, "lm_context": True}),
        )
    ),
)
