"""A family for tests that works on whole recordings."""

from conch.families.family import Family, FamilyHooks, RecordingHook

NAME, LOUDNESS, COUNT = (
    f"tests.families.toy_speakers.speakers:{name}"
    for name in ("name_speakers", "loudness", "count")
)

FAMILY = Family(
    name="toy_speakers",
    title="Speakers",
    hooks=FamilyHooks(
        after_recording=(
            RecordingHook(function=NAME, hear=LOUDNESS, when={"word_timestamps": True}),
            RecordingHook(function=COUNT, when={"word_timestamps": True}),
            RecordingHook(function=COUNT, when={"word_timestamps": False, "lm_context": True}),
        )
    ),
)
