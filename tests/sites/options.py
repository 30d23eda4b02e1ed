"""The option dialects of the sites' programs: `-n 4`, `-n4`, `--ppn 4`, `--ppn=4`, and Cray's `-cc depth`."""


class Mistake(Exception):
    """What the program says before it ends."""


FLAG, VALUE, LIST = "flag", "value", "list"


def parse(words, known, aliases=None):
    """({name: value}, [the rest]): options up to the first word that is none.  known: {"-n": VALUE, …}; FLAG gives True,
    LIST a list of all values.  aliases: {"--np": "-n"}."""
    aliases = aliases or {}
    found = {name: [] for name, kind in known.items() if kind == LIST}
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word == "--":
            break
        name, value = _split(word, known, aliases)
        if name is None:
            raise Mistake(f"invalid option -- '{word}'")
        kind = known[name]
        if kind == FLAG:
            if value is not None:
                raise Mistake(f"option '{name}' takes no value")
            found[name] = True
            continue
        if value is None:
            if not rest:
                raise Mistake(f"option requires an argument -- '{word}'")
            value = rest.pop(0)
        if kind == LIST:
            found[name].append(value)
        else:
            found[name] = value
    return found, rest


def _split(word, known, aliases):
    """(option, value or None); (None, None) for an unknown one."""
    head, equals, tail = word.partition("=")
    name = aliases.get(head, head)
    if name in known:
        return name, tail if equals else None
    short = aliases.get(word[:2], word[:2])
    if not word.startswith("--") and known.get(short) in (VALUE, LIST):  # -n4
        return short, word[2:]
    return None, None


def number(found, name, default=None):
    """A positive whole number."""
    if name not in found:
        return default
    if not found[name].isdigit() or int(found[name]) < 1:
        raise Mistake(f"{name}: '{found[name]}' is not a positive number")
    return int(found[name])


def pairs(values):
    """["A=1", "B"] -> {"A": "1", "B": ""}."""
    return {name: value for name, _, value in (text.partition("=") for text in values)}
