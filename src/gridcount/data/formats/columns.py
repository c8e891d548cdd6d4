"""The columns of a table by role: names, globs and lists, with defaults for common names."""

import difflib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase

REQUIRED = ("observation", "action", "reward")
ROLES = (*REQUIRED, "terminated", "truncated", "episode", "next_observation", "time")

DEFAULTS = {  # the first that matches a column of the table is taken
    "observation": (
        "observation",
        "observations",
        "obs",
        "state",
        "observation_*",
        "observations_*",
        "obs_*",
        "state_*",
    ),
    "action": ("action", "actions", "act", "action_*", "actions_*", "act_*"),
    "reward": ("reward", "rewards"),
    "terminated": ("terminated", "terminal", "terminals", "termination", "terminations", "done", "dones"),
    "truncated": ("truncated", "timeout", "timeouts", "truncation", "truncations"),
    "episode": ("episode", "episode_id", "episodes"),
    "next_observation": (
        *("next_observation", "next_observations", "next_obs", "next_state"),
        *("next_observation_*", "next_observations_*", "next_obs_*", "next_state_*"),
    ),
}


MISSING = ("error", "drop-rows", "drop-episodes", "carry-forward")  # what to do with missing values


@dataclass(frozen=True)
class Columns:
    """How a table is read: columns by role, each a name, a glob ('temp_*') or a comma list, and how it is
    written."""

    # columns that the policy observes; default: observation(s), obs, state, or obs_* and the like
    observation: str | None = None
    action: str | None = None  # columns of the action; default: action(s), act, or action_* and the like
    reward: str | None = None  # one column; default: reward(s)
    # 1 where an episode terminated; default: terminated, terminal(s), done; else never
    terminated: str | None = None
    # 1 where an episode was truncated, as by a time limit; default: truncated, timeout(s); else never
    truncated: str | None = None
    # a number or text that changes from episode to episode; default: episode, episode_id; else one episode
    episode: str | None = None
    # same columns as observation, one step later; default: next_obs* and the like; else the next row's
    next_observation: str | None = None

    # one column, numbers or dates: rows are sorted by it within episodes; gaps and duplicates are reported
    time: str | None = None
    # observed columns of categories: each becomes one 0/1 observation per category, named COLUMN=CATEGORY
    categorical: str | None = None
    # error, drop-rows, drop-episodes or carry-forward; default: error, which says what each would cost
    missing: str | None = None
    decimal: str | None = None  # of text: ',' or '.'; default: recognised, with the thousands separator
    # of text, such as latin-1; default: UTF-8, UTF-16 with its mark, or else Latin-1
    encoding: str | None = None
    # a SELECT that gives the table: of a database, or of files, which it calls log ("select * from log")
    sql: str | None = None

    def given(self) -> dict[str, str]:
        """The fields that the user set, as a run records them."""
        return {
            field.name: value for field in fields(self) if (value := getattr(self, field.name)) is not None
        }

    @classmethod
    def of(cls, source: str, given: Mapping[str, str]) -> "Columns":
        """Columns from recorded fields; `source` is the file name for messages."""
        if odd := [role for role in given if role not in FIELDS]:
            raise ValueError(
                f"{source}: 'columns' has the unknown role '{odd[0]}'; the roles are {', '.join(FIELDS)}"
            )
        return cls(**given)

    def __post_init__(self) -> None:
        """Validate the choice for missing values."""
        if self.missing not in (None, *MISSING):
            raise ValueError(f"--missing is '{self.missing}'; it must be one of {', '.join(MISSING)}")


FIELDS = tuple(field.name for field in fields(Columns))  # what runs and suites may record of a table


def assign(source: str, names: Sequence[str], columns: Columns) -> dict[str, list[str]]:
    """Column names of the table for each role that has any.

    A glob excludes columns that another role names or finds by its default names, and '*' also excludes those
    of another role's glob. So `--observation '*' --action valve --reward yield` works as expected. A glob
    that matches only default names keeps them. A column with two roles is an error: a policy must not observe
    its own action.
    """
    wanted = {role: getattr(columns, role) for role in ROLES if getattr(columns, role)}
    items = {
        role: [spec] if spec in names else _items(spec) for role, spec in wanted.items()
    }  # a column name may contain a comma
    pairs = [(role, item) for role, parts in items.items() for item in parts]
    named = {item: role for role, item in pairs if item in names}
    globbed: dict[str, str] = {}
    for role, item in pairs:
        if item != "*":
            globbed |= {name: role for name in names if fnmatchcase(name, item)}
    guessed = {name for members in _by_default(names, set(named), wanted).values() for name in members}
    roles: dict[str, list[str]] = {}
    for role, parts in items.items():
        if not parts:
            raise ValueError(
                f"{source}: {_flag(role)} '{wanted[role]}' names no column; it has {_listing(names)}"
            )
        roles[role] = _matches(source, names, role, parts, named, globbed | named, guessed)
    # defaults come second: a column that the user named for one role is not used for another
    roles |= _by_default(names, {name for members in roles.values() for name in members}, roles)
    categories = categorical(source, names, columns)
    taken = {name for members in roles.values() for name in members}
    if added := [name for name in categories if name not in taken]:
        roles["observation"] = roles.get("observation", []) + added
    _validate(source, names, roles, categories)
    return roles


def _validate(
    source: str, names: Sequence[str], roles: Mapping[str, list[str]], categories: list[str]
) -> None:
    """Raise ValueError for a role that lacks its column, has too many, or shares one with another role."""
    for role in ("reward", "terminated", "truncated", "episode", "time"):
        if len(roles.get(role, ())) > 1:
            raise ValueError(
                f"{source}: the {role} must be one column, not {_listing(roles[role])}; name one with"
                f" {_flag(role)} COLUMN"
            )
    for role in REQUIRED:
        if role not in roles:
            raise ValueError(
                f"{source}: no column for the {role}; it has {_listing(names)}. Name it with {_flag(role)}"
                " COLUMN"
            )
    owner: dict[str, str] = {}
    for role, members in roles.items():
        for name in members:
            if owner.setdefault(name, role) != role:
                raise ValueError(
                    f"{source}: column '{name}' is both {owner[name]} and {role}; use it for only one of them"
                )
    for name in categories:
        if owner[name] != "observation":
            raise ValueError(
                f"{source}: --categorical names '{name}', which is the {owner[name]};"
                " only observations can be categories"
            )
    count, next_count = len(roles["observation"]), len(roles.get("next_observation", roles["observation"]))
    if count != next_count:
        raise ValueError(
            f"{source}: {count} columns of observations but {next_count} of next observations; name the same"
            " ones for both"
        )


def categorical(source: str, names: Sequence[str], columns: Columns) -> list[str]:
    """The columns of categories."""
    spec = columns.categorical
    if not spec:
        return []
    items = [spec] if spec in names else _items(spec)
    return _matches(source, names, "categorical", items, {}, {}, set())


def _items(spec: str) -> list[str]:
    return [item.strip() for item in spec.split(",") if item.strip()]


def _by_default(names: Sequence[str], taken: set[str], given: Collection[str]) -> dict[str, list[str]]:
    """The columns of roles that are not given, by their common names."""
    roles: dict[str, list[str]] = {}
    for role, candidates in DEFAULTS.items():
        free = [name for name in names if name not in taken and role not in given]
        found = next(
            (
                hits
                for pattern in candidates
                if (hits := [name for name in free if fnmatchcase(name, pattern)])
            ),
            [],
        )
        if found:
            roles[role] = found
            taken = taken | set(found)
    return roles


def _matches(
    source: str,
    names: Sequence[str],
    role: str,
    items: list[str],
    named: dict[str, str],
    claimed: dict[str, str],
    guessed: set[str],
) -> list[str]:
    """The columns of a role's names and globs, in the given order; those of a glob in table order."""
    members: list[str] = []
    for item in items:
        others = claimed if item == "*" else named
        globbed = [name for name in names if fnmatchcase(name, item) and others.get(name, role) == role]
        hits = [item] if item in names else [name for name in globbed if name not in guessed] or globbed
        if not hits:
            near = difflib.get_close_matches(item, names, n=1, cutoff=0.5)
            hint = f"; did you mean '{near[0]}'?" if near else "."
            raise ValueError(
                f"{source}: {_flag(role)} names '{item}', which no column matches{hint} It has"
                f" {_listing(names)}"
            )
        members += [name for name in hits if name not in members]
    return members


def _flag(role: str) -> str:
    return "--" + role.replace("_", "-")


def _listing(names: Sequence[str], most: int = 20) -> str:
    shown = ", ".join(f"'{name}'" for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "") if names else "no columns"
