"""What the house tests know of C++: lexemes, namespaces and the types that a file defines.

It is no compiler: it knows comments, strings, raw strings, preprocessor lines and brackets, and skips the bodies of
functions. Branches of #if are all read.
"""
import collections
import re

LEXEME = re.compile(r"""
    (?P<comment>//(?:\\\n|[^\n])*|/\*.*?\*/)
  | (?P<string>(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+')
  | (?P<directive>^[ \t]*\#(?:\\\n|"(?:\\.|[^"\\\n])*"|(?!//|/\*)[^\n])*)
  | (?P<number>\d(?:[\w.]|'\w)*)
  | (?P<word>[A-Za-z_]\w*)
  | (?P<sign>::|\S)
""", re.VERBOSE | re.DOTALL | re.MULTILINE)

Lexeme = collections.namedtuple("Lexeme", "kind text offset")
# A namespace that a file opens: its words as written, without comments ("muster::launcherd::inline run"); "" if anonymous.
Namespace = collections.namedtuple("Namespace", "name line")
# A type that a file defines. `name` is qualified, without the inline namespaces around it.
Type = collections.namedtuple("Type", "name line")
# A scope that is open at a place in a file. `name` is None for anonymous namespaces and for types without a name.
Scope = collections.namedtuple("Scope", "name")

PRODUCT_SUFFIXES = (".h", ".cc", ".cu", ".cuh", ".c")
TYPE_KEYS = ("class", "struct", "union", "enum")
CLOSING = {"(": ")", "[": "]", "{": "}"}


def lexemes(text):
    for match in LEXEME.finditer(text):
        yield Lexeme(match.lastgroup, match.group(), match.start())


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def product_files(root, rooms, suffixes=PRODUCT_SUFFIXES):
    """The files of the rooms with these suffixes, as (path from the root, file)."""
    for room in rooms:
        for file in sorted((root / room).rglob("*")):
            if file.suffix in suffixes and file.is_file():
                yield file.relative_to(root).as_posix(), file


def join(words):
    """Words as one name: a blank only where two words meet."""
    return re.sub(r"(?<=\w) (?!\w)|(?<!\w) ", "", " ".join(words))


class Reader:
    """Reads one file from its start to its end. `namespaces` and `types` hold what it has found."""

    def __init__(self, text):
        self.text = text
        self.code = [lexeme for lexeme in lexemes(text) if lexeme.kind not in ("comment", "directive")]
        self.at = 0
        self.namespaces = []
        self.types = []
        self.has_main = False
        self.has_c_linkage = False
        while self.at < len(self.code):
            self.read_scope(Scope(""))
            self.at += 1  # a bracket that closes nothing

    def peek(self, ahead=0):
        place = self.at + ahead
        return self.code[place].text if place < len(self.code) else ""

    def skip_group(self):
        """From an opening bracket to behind the one that closes it."""
        opening = self.peek()
        closing, depth = CLOSING[opening], 0
        while self.at < len(self.code):
            depth += {opening: 1, closing: -1}.get(self.peek(), 0)
            self.at += 1
            if depth == 0:
                return

    def skip_angles(self):
        """From the < of a template's parameters to behind its >."""
        depth = 0
        while self.at < len(self.code):
            text = self.peek()
            if text in CLOSING:
                self.skip_group()
                continue
            depth += {"<": 1, ">": -1}.get(text, 0)
            self.at += 1
            if depth == 0:
                return

    def skip_statement(self):
        """To behind the next ; that is in no bracket."""
        while self.at < len(self.code) and self.peek() != "}":
            if self.peek() in CLOSING:
                self.skip_group()
                continue
            self.at += 1
            if self.code[self.at - 1].text == ";":
                return

    def read_scope(self, scope):
        """The inside of a namespace or a type, to the } that closes it."""
        while self.at < len(self.code) and self.peek() != "}":
            text = self.peek()
            if text in ("using", "friend"):
                self.skip_statement()
            elif text == "template":
                self.at += 1
                if self.peek() == "<":
                    self.skip_angles()
            elif text == "namespace":
                self.read_namespace(scope)
            elif text in TYPE_KEYS:
                self.read_type(scope)
            elif text == "extern" and self.peek(1) == '"C"':
                self.has_c_linkage = True
                self.at += 2
                if self.peek() == "{":
                    self.at += 1
                    self.read_scope(scope)
                    self.at += 1
            elif text in CLOSING:
                self.has_main |= scope.name == "" and text == "(" and self.code[self.at - 1].text == "main"
                self.skip_group()
            else:
                self.at += 1

    def read_namespace(self, scope):
        line = line_of(self.text, self.code[self.at].offset)
        is_inline = self.at > 0 and self.code[self.at - 1].text == "inline"
        self.at += 1
        words = []
        while self.at < len(self.code) and self.peek() not in ("{", ";", "="):
            if self.peek() == "[":  # attributes
                self.skip_group()
                continue
            words.append(self.peek())
            self.at += 1
        if self.peek() != "{":
            return self.skip_statement()
        self.namespaces.append(Namespace(join(words), line))
        # muster::launcherd::inline run is seen as muster::launcherd.
        seen = [part for part in join(words).split("::") if not part.startswith("inline ")]
        name = qualified(scope.name, "" if is_inline else "::".join(seen)) if words else None
        self.at += 1
        self.read_scope(Scope(name))
        self.at += 1
        return None

    def read_type(self, scope):
        line = line_of(self.text, self.code[self.at].offset)
        self.at += 1
        if self.peek() in ("class", "struct"):  # enum class
            self.at += 1
        words = []
        while self.peek() in ("[", "alignas") or re.match(r"\w|::|<", self.peek()):
            text = self.peek()
            if text == "alignas":
                self.at += 1
            if text in ("[", "alignas"):
                self.skip_group()
                continue
            if text == "final" or words and re.match(r"\w", words[-1]) and re.match(r"\w", text):
                break
            begin = self.at
            if text == "<":
                self.skip_angles()
            else:
                self.at += 1
            words += [lexeme.text for lexeme in self.code[begin:self.at]]
        if self.peek() == "final":
            self.at += 1
        if self.peek() == ":":  # bases, or the type below an enum
            while self.at < len(self.code) and self.peek() not in ("{", ";"):
                if self.peek() == "(":
                    self.skip_group()
                elif self.peek() == "<":
                    self.skip_angles()
                else:
                    self.at += 1
        if self.peek() != "{":
            return None  # declared, not defined; or the type of a function or a variable
        name = qualified(scope.name, join(words)) if words else None
        if name is not None:
            self.types.append(Type(name, line))
        self.at += 1
        self.read_scope(Scope(name))
        self.at += 1
        return None


def qualified(scope, name):
    """A name in a scope; None inside what has no name."""
    if scope is None:
        return None
    return "::".join(part for part in (scope, name) if part)
