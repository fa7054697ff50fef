"""Translates formulas that are written as plain text to TeX, and finds them in prose.

Names of Greek letters, sums, relations, exponents and indices are translated, and nothing is moved: what is between
stays where it is. Text that is not surely a formula, such as code, is refused.
"""

from __future__ import annotations

import re


def list_names(text: str) -> list[str]:
    """Returns the names of a list."""
    return re.findall(r"\w+", text)


GREEK = {
    name: f"\\{name}"
    for name in list_names("""
        alpha beta gamma delta zeta eta theta kappa lambda mu nu xi pi rho sigma tau chi psi omega
        Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega
    """)
} | {"gbar": "\\bar g", "eps": "\\varepsilon", "epsilon": "\\varepsilon", "phi": "\\varphi"}
FUNCTIONS = {name: f"\\{name}" for name in list_names("log ln exp sup max min sin cos tan sinh cosh det lim arg")}
FUNCTIONS |= {
    name: f"\\operatorname{{{name}}}"
    for name in list_names("""
        expm1 log1p erfc erf Re Im Pr Var Bin Lap sign sgn conj fl cdf pmf atan ulp ulps KL TV tr nint rank clip trunc
        floor round asinh mean loss offset mod Gaussian
    """)
}
LARGE = {"sum": "\\sum", "prod": "\\prod", "int": "\\int"}
RELATIONS = {
    "<=": "\\le", ">=": "\\ge", "!=": "\\ne", "->": "\\to", "=>": "\\Rightarrow", "<->": "\\leftrightarrow",
    "<<": "\\ll", ">>": "\\gg", "+-": "\\pm", "...": "\\dots", ":=": ":=", "~": "\\sim", "==": "=="}  # fmt: skip
WORDS = {
    *list_names("""
        a all and any as at but by each else for from if is it least most no not of on one only or otherwise over that
        the their then there this those to under up when where which with
    """)
}
"""Words that may stand inside a formula, as words."""
PLAIN = "+-*/=<>|(),.:;[]!?'"
TOKEN = re.compile(
    r"(?P<space>\s+)|(?P<number>\d+(?:,\d{3})+|\d*\.?\d+(?:e-?\d+)?)|(?P<word>[A-Za-z]+)"
    r"|(?P<relation>\.\.\.|<->|<=|>=|!=|->|=>|<<|>>|\+-|:=|==)|(?P<sign>.)",
    re.DOTALL,
)
CLOSING = {"(": ")", "{": "}", "[": "]"}


class NotAFormula(ValueError):
    """The text is no formula, or not surely one."""


class _Reader:
    """Translates one text, token by token."""

    def __init__(self, text: str, strict: bool) -> None:
        self.tokens = [(m.lastgroup, m[0]) for m in TOKEN.finditer(text)]
        self.at = 0
        self.strict = strict
        self.depth = 0  # of braces: a formula may be broken outside of them alone

    def peek(self, ahead: int = 0) -> tuple[str, str]:
        found = self.at + ahead
        return self.tokens[found] if found < len(self.tokens) else ("end", "")

    def next(self) -> tuple[str, str]:
        token = self.peek()
        self.at += 1
        return token

    def translate(self, closing: str = "") -> str:
        """Returns TeX up to the closing bracket, or to the end."""
        self.depth += bool(closing)
        found: list[str] = []
        while True:
            kind, text = self.peek()
            if kind == "end":
                if closing:
                    raise NotAFormula
                return "".join(found)
            if text == closing:
                self.next()
                self.depth -= 1
                return "".join(found)
            found.append(self.translate_token(found))

    def allow_break(self) -> str:
        """Returns TeX that lets a formula be broken here where the line is too short."""
        return "" if self.depth else "\\allowbreak "

    def translate_token(self, before: list[str]) -> str:
        """Returns the TeX of what comes next."""
        kind, text = self.next()
        if kind == "space":
            # A space between two operands is a product, or a gap between words.
            kind, text = self.peek()
            product = kind == "number" or (kind == "word" and text not in ("in", *WORDS))
            return "\\," if before and self._is_operand(before[-1]) and product else " "
        if kind == "number":
            return text.replace(",", "{,}")
        if kind == "relation":
            return RELATIONS[text] + " "
        if kind == "word":
            return self.translate_word(text)
        if text in "^_":
            return text + "{" + self.translate_script() + "}"
        if text == "{":
            return "\\{" + self.translate("}") + "\\}"
        if text == ",":
            return "," + self.allow_break()
        if text == "~":
            return "\\sim "
        if text == "%":
            return "\\%"
        if text in PLAIN:
            return {"<": "\\lt ", ">": "\\gt ", "|": "\\vert ", "*": "* "}.get(text, text)
        raise NotAFormula

    @staticmethod
    def _is_operand(tex: str) -> bool:
        return bool(re.search(r"[\w)\]}']$", tex)) and not tex.startswith("\\text")

    def translate_word(self, text: str) -> str:
        """Returns the TeX of a name: a letter, a Greek one, a function, a differential, or a word."""
        follow = self.peek()[1]
        if text in GREEK:
            return GREEK[text] + " "
        if text == "inf":
            return "\\infty " if follow in ("", ")", "]", "}", ",", ".", ";", "|", ":") or self._ends() else "\\inf "
        if text == "sqrt":
            if follow == "(":
                self.next()
                return "\\sqrt{" + self.translate(")") + "}"
            if self.peek()[0] == "space":
                self.next()
            return "\\sqrt{" + self.translate_operand() + "}"
        if text in FUNCTIONS:
            return FUNCTIONS[text] + " "
        if text in LARGE:
            return LARGE[text] + " "
        if text == "in":
            return "\\in "
        if len(text) == 1:
            return self.translate_accent(text)
        if text[0] == "d" and (text[1:] in GREEK or len(text) == 2):  # a differential
            return "\\mathrm{d}" + (GREEK[text[1:]] + " " if text[1:] in GREEK else text[1:])
        if text in WORDS and not self._follows_operator():
            return f"\\text{{ {text} }}" + self.allow_break()
        if len(text) == 2 or (len(text) == 3 and not text.islower()):  # a product of letters, such as kR
            return text
        if self.strict or follow in ("(", "_"):
            raise NotAFormula  # more likely a name in code
        return f"\\text{{ {text} }}" + self.allow_break()

    def _follows_operator(self) -> bool:
        """Tells whether a sign stands before the word just read, so that ``is`` in ``c + is`` is a product."""
        before = [text for kind, text in self.tokens[: self.at - 1] if kind != "space"]
        return bool(before) and before[-1] in set("+-*/^")

    def translate_accent(self, letter: str) -> str:
        """Returns a letter with the tilde or hat that follows it, as in ``g~ = 1``, or the letter alone."""
        accent = {"~": "tilde", "^": "hat"}.get(self.peek()[1])
        kind, text = self.peek(1)
        if accent is None or kind in ("word", "number") or text in ("{", "(", "+", "-", "*", "'"):
            return letter
        self.next()
        return f"\\{accent}{{{letter}}}"

    def _ends(self) -> bool:
        """Tells whether only a relation, or nothing, follows after a space."""
        following = self.peek(1)[1] if self.peek()[0] == "space" else self.peek()[1]
        return following in ("", "=", "<", ">", "+", "-", "*", "/", ")", "]", "<=", ">=")

    def translate_script(self) -> str:
        """Returns the TeX of an exponent or index: a group in braces, or a single sign or operand."""
        kind, text = self.peek()
        if text == "{":
            self.next()
            return self.translate("}")
        if text == "(":
            self.next()
            return "(" + self.translate(")") + ")"
        if text in ("+", "-", "*", "'"):
            self.next()
            after = self.peek()[0]
            return text + (self.translate_operand() if text != "'" and after in ("word", "number") else "")
        if kind not in ("word", "number"):
            raise NotAFormula
        return self.translate_operand()

    def translate_operand(self) -> str:
        """Returns the TeX of one name or number."""
        kind, text = self.next()
        if kind == "number":
            mantissa, _, exponent = text.partition("e")
            if not exponent:
                return text
            return ("" if mantissa == "1" else f"{mantissa} \\cdot ") + f"10^{{{exponent}}}"
        if kind != "word":
            raise NotAFormula
        if text in GREEK:
            return GREEK[text] + " "
        if text == "inf":
            return "\\infty "
        if len(text) == 1:
            digits = self.peek()
            return text + (self.next()[1] if digits[0] == "number" else "")
        if self.peek()[1] == "_":
            raise NotAFormula
        return f"\\mathrm{{{text}}}"


def translate_formula(text: str, strict: bool = False) -> str | None:
    """Returns the TeX of a formula, or None if the text is not surely one; ``strict`` refuses every unknown word.

    >>> translate_formula("M(z) <= e^{z eps} / 2^-53")
    'M(z) \\\\le  e^{z\\\\,\\\\varepsilon } / 2^{-53}'
    >>> translate_formula("choose_period(x)") is None
    True
    """
    if re.search(r'["`\\$#&@]|::|__|\w\.\w*[a-z]|/\w*/', text):
        return None
    try:
        return _Reader(text, strict).translate()
    except NotAFormula:
        return None


MATHY = re.compile(r"[\^_=<>]|\b[A-Za-z]\b|" + r"\b(?:" + "|".join([*GREEK, *LARGE]) + r")\b")


def is_formula_in_code(text: str) -> bool:
    """Tells whether a code span is a formula: it has a letter or a relation, and no name of a program."""
    if re.search(r"\b[a-z]+_[a-z]{2,}\b", re.sub(r"\b(?:" + "|".join(GREEK) + r")_\w+", "", text)):
        return False
    return bool(MATHY.search(text))


def _balanced(text: str) -> bool:
    """Tells whether all round and curly brackets close: half-open intervals mix the others."""
    return text.count("(") + text.count("[") == text.count(")") + text.count("]") and text.count("{") == text.count("}")


CHUNK = re.compile(
    r"[-+]?[(\[|]*(?:(?:"
    + "|".join([*GREEK, *FUNCTIONS, *LARGE, "sqrt", "inf"])
    + r"|d(?:mu|nu)|d?[A-Za-z])(?![A-Za-z])|\d)"
    r"[\w^{}()\[\]|'+*/.,!=<>-]*"
)
OPERATOR = re.compile(r"[-+*/=<>~]|<=|>=|!=|->|<<|>>|:=|in|\+-")
STRONG = re.compile(r"[\^_]|[A-Za-z]\(|\w'|<=|>=|(?:^|\s)[=<>](?:\s|$)")


LONE = re.compile(r"[A-Zb-z]|mu|nu|sigma|rho|kappa|lambda|theta|eta|alpha|beta|gamma|phi|Phi|eps")
"""Letters that are formulas by themselves. The words delta and epsilon are not."""
LANGUAGE = re.compile(r"library|librar|interface|program|compiler|function")
"""Beginnings of what follows the name of the language C."""
ARTICLES = {"a", "A", "I"}


def _is_letter(parts: list[str], at: int, run: list[str]) -> bool:
    """Tells whether a part that might be an article is a letter of a formula: an operator stands beside it, or it is a
    capital that goes on with a formula."""
    before, after = "".join(parts[at - 2 : at - 1]), "".join(parts[at + 2 : at + 3])
    return bool(OPERATOR.fullmatch(before) or OPERATOR.fullmatch(after)) or (bool(run) and parts[at][0] == "A")


def split_prose(text: str) -> list[tuple[bool, str]]:
    """Splits a paragraph's text into formulas (True) and words (False).

    A formula is a run of parts that each look like one, with an exponent, index, relation or argument in it.
    """
    parts = re.split(r"(\s+)", text)
    found: list[tuple[bool, str]] = []
    run: list[str] = []

    def flush() -> None:
        while run and (run[-1].isspace() or OPERATOR.fullmatch(run[-1])):
            rest.insert(0, run.pop())
        words: list[str] = []
        while run and (run[0].isspace() or OPERATOR.fullmatch(run[0])):
            words.append(run.pop(0))
        body = "".join(run)
        run.clear()
        tail = re.search(r"[.,;:]+$", body)
        end = tail[0] if tail else ""
        body = body[: len(body) - len(end)] if end else body
        lead = ""
        while body and not _balanced(body):
            if body[0] in "([" and body.count("(") + body.count("[") > body.count(")") + body.count("]"):
                lead, body = lead + body[0], body[1:]
            elif body[-1] in ")]":
                body, end = body[:-1], body[-1] + end
            else:
                break
        surely = STRONG.search(body) or (LONE.fullmatch(body) and not (body == "C" and LANGUAGE.match(following[0])))
        tex = translate_formula(body, strict=True) if surely and _balanced(body) else None
        found.append((False, "".join(words) + lead))
        found.append((tex is not None, body))
        found.append((False, end + "".join(rest)))
        rest.clear()

    rest: list[str] = []
    following = [""]
    for at, part in enumerate(parts):
        looks = bool(CHUNK.fullmatch(part)) and (part.rstrip(".,;:)") not in ARTICLES or _is_letter(parts, at, run))
        if looks or (run and (part.isspace() or OPERATOR.fullmatch(part))):
            run.append(part)
            if re.search(r"[.;:]$", part):
                flush()
        else:
            if run:
                following[0] = part
                flush()
                following[0] = ""
            found.append((False, part))
    if run:
        flush()
    return [(math, piece) for math, piece in found if piece]


def translate_lines(text: str) -> list[tuple[str, str, str]] | None:
    """Returns source, TeX and number of each formula of a block, or None if one line is not surely a formula.

    A line that is indented further goes on with the formula above it.
    """
    joined: list[str] = []
    for line in text.rstrip().split("\n"):
        if joined and line.startswith(" ") and line.strip():
            joined[-1] += " " + line.strip()
        else:
            joined.append(line.rstrip())
    found = []
    for line in joined:
        match = re.fullmatch(r"(.*?)(?:\s{3,}\((\d+[a-z']?)\))?", line)
        assert match is not None
        body, number = match[1].strip(), match[2] or ""
        # Gaps of several spaces separate formulas on one line.
        parts = [translate_formula(part) for part in re.split(r"\s{3,}", body)]
        if None in parts or not _balanced(body):
            return None
        found.append((line, "\\qquad \\allowbreak ".join(part for part in parts if part), number))
    return found
