"""A family for tests that works on whole recordings."""

from conch.families.registry import FamilyHooks

SPEAKERS_HOOKS = FamilyHooks(
    after_recording=(
        "tests.families.toy_speakers.speakers:SPEAKERS",
        "tests.families.toy_speakers.speakers:COUNT",
    )
)
