"""The flags of a guard, which commands share."""

from dataclasses import dataclass
from typing import cast, get_args

from gridcount.policy.guard import Guard, Named


@dataclass(frozen=True)
class GuardFlags:
    """When the guard holds, and what acts then."""

    min_count: int | None = None  # least count of an action in the log; default: as measured on the log
    # bins per column at which a state must be seen; 0: any state; default: as measured on the log
    resolution: int | None = None
    # what acts then: clone, nearest, abstain, clone-or-abstain, nearest-or-abstain, or the numbers of a fixed
    # action; default: clone-or-abstain, of an export its own
    fallback: tuple[str, ...] = ()

    def guard(self) -> Guard:
        """The guard."""
        words = self.fallback
        if not words:
            return Guard(self.min_count, self.resolution)
        try:
            fixed = [float(word) for word in words]
        except ValueError:
            if len(words) != 1:
                raise ValueError(
                    f"--fallback is {' '.join(words)}; give {', '.join(get_args(Named))} or the numbers of"
                    " an action"
                ) from None
            return Guard(self.min_count, self.resolution, cast(Named, words[0]))  # Guard validates it
        return Guard(self.min_count, self.resolution, fixed)
