"""A family for tests that works on whole recordings."""

from conch.families.family import Family, FamilyHooks

FAMILY = Family(
    name="toy_speakers",
    title="Speakers",
    hooks=FamilyHooks(
        after_recording=(
            "tests.families.toy_speakers.speakers:SPEAKERS",
            "tests.families.toy_speakers.speakers:COUNT",
        )
    ),
)
