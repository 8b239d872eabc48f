"""The table of rules by which texts of the query engine become messages of ours.

A rule has a pattern, what exactly is wrong (None where SQL has no code for it), and the message: a template for the
match, or None to keep the text. The first rule that matches counts; what no rule matches keeps its text. In every case
`in_sql_words` takes out what only developers of the engine understand.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tsdb.errors import Reason


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of text."""

    pattern: re.Pattern[str]
    reason: Reason | None
    template: str | None = None

    def render(self, match: re.Match[str], text: str) -> str:
        return text if self.template is None else " ".join(match.expand(self.template).split())


def _rule(pattern: str, reason: Reason | None, template: str | None = None) -> Rule:
    return Rule(re.compile(pattern, re.IGNORECASE | re.DOTALL), reason, template)


RULES: Final = (
    _rule(r"divide by zero|division by zero", Reason.DIVISION_BY_ZERO),
    # Text that is no number, time, pattern …
    _rule(
        r"regex parse error:\s*\n?\s*(?P<regex>.*?)\n[\s^~-]*\n?\s*error: (?P<why>[^\n]*)",
        Reason.INVALID_REGEX,
        r"Invalid regular expression '\g<regex>': \g<why>",
    ),
    _rule(
        r"CompiledTooBig|Compiled regex exceeds size limit",
        Reason.INVALID_REGEX,
        "the regular expression is too large",
    ),
    _rule(
        r"Regular expression did not compile: (?P<regex>.*)",
        Reason.INVALID_REGEX,
        r"Invalid regular expression '\g<regex>'",
    ),
    _rule(
        r"type interval: \"(?P<text>.*)\"",
        Reason.INVALID_DATETIME,
        r"'\g<text>' is not an interval such as '1 day' or '90 seconds'",
    ),
    _rule(
        r"Error parsing timestamp from '(?P<text>.*)': timestamp must contain at least",
        Reason.INVALID_DATETIME,
        r"Cannot read '\g<text>' as a timestamp, expected a text such as 2024-01-30 12:30:00",
    ),
    _rule(
        r"Error parsing timestamp from '(?P<text>.*)' using format '(?P<format>.*)': (?P<why>.*)",
        Reason.INVALID_DATETIME,
        r"Cannot read '\g<text>' as a timestamp of the format '\g<format>': \g<why>",
    ),
    _rule(
        r"Error parsing timestamp from '(?P<text>.*)': (?P<why>.*)",
        Reason.INVALID_DATETIME,
        r"Cannot read '\g<text>' as a timestamp: \g<why>",
    ),
    _rule(
        r"Error parsing '(?P<text>.*)' as time\. Tried formats: \[(?P<formats>.*)\]",
        Reason.INVALID_DATETIME,
        r"Cannot read '\g<text>' as a time, tried the formats \g<formats>",
    ),
    _rule(r"Error parsing|Date part '.*' not supported", Reason.INVALID_DATETIME),
    _rule(
        r"Timestamp out of range|exceeds the representable|overflow.*(?:timestamp|duration|interval)"
        r"|(?:Month|Day|Hour|Minute|Second) value",
        Reason.DATETIME_OUT_OF_RANGE,
    ),
    _rule(r"converting from i64 to i32 failed", Reason.DATETIME_OUT_OF_RANGE, "the date is out of range"),
    _rule(r"non UTF-8 data|invalid utf-8", Reason.INVALID_ENCODING, "the value is not valid UTF-8"),
    _rule(
        r"Cannot cast (?:string|value) '(?P<text>.*)' to value of (?P<type>.*) type",
        Reason.INVALID_TEXT,
        r"Cannot cast string '\g<text>' to \g<type>",
    ),
    _rule(
        r"Unsupported Value '\w+\(\"(?P<text>.*)\"\)'|Invalid HexStringLiteral '(?P<hex>.*)'",
        Reason.INVALID_TEXT,
        r"'\g<text>\g<hex>' is not a literal",
    ),
    # Numbers.
    _rule(
        r"Cannot cast to (?P<type>Decimal\d*\([^)]*\))\. Overflowing on (?P<value>.*)",
        Reason.OUT_OF_RANGE,
        r"Cannot cast \g<value> to \g<type>: the number is out of range",
    ),
    _rule(r"\w+Array overflow on (?P<what>.*)", Reason.OUT_OF_RANGE, r"Arithmetic overflow: \g<what>"),
    _rule(r"Overflow happened on:? (?P<what>.*)", Reason.OUT_OF_RANGE, r"Arithmetic overflow: \g<what>"),
    _rule(
        r"overflow|out of range|not in range|too large to store|Can't cast value|invalid Unicode scalar",
        Reason.OUT_OF_RANGE,
    ),
    _rule(
        r"square root of a negative|must be between|must be at least|to be 1.?based|requires a positive"
        r"|step can(?:not be zero|'t be 0)|stride: 0|Invalid escape character",
        Reason.INVALID_PARAMETER,
    ),
    # Names and shapes.
    _rule(r"Ambiguous reference|ambiguous", Reason.AMBIGUOUS_COLUMN),
    _rule(
        r"Schema contains duplicate (?:un)?qualified field name (?P<name>.*)",
        Reason.DUPLICATE_ALIAS,
        r"the column \g<name> occurs twice; give the tables, or the columns, different aliases",
    ),
    _rule(
        r"Projections require unique expression names but the expression",
        Reason.DUPLICATE_ALIAS,
        "two columns of the result have the same name; give one of them an alias",
    ),
    _rule(r"WITH query name .* specified more than once", Reason.DUPLICATE_ALIAS),
    _rule(
        r"Column in SELECT must be in GROUP BY.*?column \"(?P<name>[^\"]*(?:\"[^\"]+)*?)\" must appear",
        Reason.GROUPING,
        r"Column in SELECT must be in GROUP BY or an aggregate function: \g<name>",
    ),
    _rule(
        r"must appear in the GROUP BY|must be in GROUP BY|calls cannot be nested|Aggregate functions are not allowed",
        Reason.GROUPING,
    ),
    _rule(r"to grouping function is not in|for GROUPING aggregate", Reason.GROUPING, "grouping takes keys of GROUP BY"),
    _rule(
        r"does not support logical expression WindowFunction",
        Reason.WINDOWING,
        "a window function cannot be in WHERE, GROUP BY or HAVING; select from a subquery that has it",
    ),
    _rule(r"Invalid window frame", Reason.WINDOWING),
    _rule(
        r"column out of bounds|Cannot find column with position|DISTINCT ON expressions must match",
        Reason.COLUMN_REFERENCE,
    ),
    _rule(
        r"different number of columns|Too many columns|same number of columns|Inconsistent data length",
        Reason.COLUMN_COUNT,
    ),
    _rule(r"Scalar subquery returned more than one row", Reason.CARDINALITY),
    _rule(
        r"table function '(?P<name>[^']*)' not found", Reason.UNDEFINED_FUNCTION, r"there is no table function \g<name>"
    ),
    _rule(r"logical expression Wildcard", Reason.WRONG_ARGUMENTS, "* is an argument of count only"),
    # What the engine does not do, which has no code of its own.
    _rule(
        r"does not support logical expression (?:ScalarSubquery|InSubquery|Exists|SetComparison|OuterReferenceColumn)"
        r"|Correlated scalar subquery can only be used in",
        None,
        "this subquery is not supported in this place; write it as a join",
    ),
    _rule(r"Unnest should be rewritten", None, "unnest is not supported in this place; call it in FROM"),
    _rule(r"Unsupported LIMIT", None, "LIMIT and OFFSET take an integer constant"),
    _rule(r"Placeholder '(?P<name>.*)' was not", Reason.INVALID_PARAMETER, r"the parameter \g<name> has no value"),
    _rule(r"Expected (?P<what>LIMIT|OFFSET) to be an integer or null, but got (?P<type>.*)", Reason.INVALID_PARAMETER),
    _rule(r"(?:LIMIT|OFFSET) must be", Reason.INVALID_PARAMETER),
    _rule(
        r"There is only support Literal types for field at idx",
        Reason.WRONG_ARGUMENTS,
        "the offset of a window function must be a constant",
    ),
    _rule(
        r"This feature is not implemented: Unsupported (?:TRY_)?CAST from (?P<from>.*) to (?P<to>.*)",
        Reason.DATATYPE_MISMATCH,
        r"Cannot cast \g<from> to \g<to>",
    ),
    _rule(
        r"Cannot coerce|Cannot infer common|common type|Cannot automatically convert|non-boolean predicate"
        r"|Cannot get result type|type mismatch|not compatible|compatible types|requires a boolean"
        r"|unsupported data type|does not support type|only support|Unary operator|can only be applied to"
        r"|Cannot access field",
        Reason.DATATYPE_MISMATCH,
    ),
    _rule(
        r"(?:The function )?'(?P<name>\w+)' expected zero argument",
        Reason.WRONG_ARGUMENTS,
        r"Function '\g<name>' takes no arguments",
    ),
    _rule(
        r"'(?P<name>\w+)' does not support zero arguments",
        Reason.WRONG_ARGUMENTS,
        r"Function '\g<name>' expects arguments but received none",
    ),
    _rule(
        r"expects? |expected \d+ argument|requires? |must be a literal|must be a scalar|must be a string literal"
        r"|Expected an? (?:signed )?integer|must be an INTEGER|only accepts|nth_value not supported for",
        Reason.WRONG_ARGUMENTS,
    ),
)

FUNCTION_MISMATCH: Final = re.compile(
    r"No function matches the given name|failed to match any signature|Failed to coerce arguments to satisfy a call"
    r"|user-defined coercion failed"
)
_MISMATCH_NAME = re.compile(
    r"(?:[Ff]unction|call to) '(?P<name>\w+)'|^\W*(?:Error during planning: )?'(?P<other>\w+)' does not support"
)
_MISMATCH_TYPES = re.compile(r"argument types '\w+\((?P<types>.*?)\)'\. ?You might", re.DOTALL)
_MISMATCH_FROM = re.compile(r"coercion from (?P<types>.*?) to the signature", re.DOTALL)
_MISMATCH_COUNT = re.compile(r"expect(?:s|ed) (?P<want>zero|(?:at least )?\d+) arguments? but received (?P<got>\d+)")
_MISMATCH_OWN = re.compile(
    r"user-defined coercion failed with: (?:Execution error: |Error during planning: )?(?P<why>.*?)\.*\s+"
    r"No function matches",
    re.DOTALL,
)
_RECEIVED = re.compile(r"DataType: (?P<type>[^)]*\)?)\)")


def explain_mismatch(text: str) -> tuple[str, Reason] | None:
    """Return the message for arguments that a function does not take; None for any other text."""
    if not FUNCTION_MISMATCH.search(text):
        return None
    named = _MISMATCH_NAME.search(text)
    name = (named["name"] or named["other"]) if named else "the function"
    counts = _MISMATCH_COUNT.findall(text)
    if counts and len({got for _, got in counts}) == 1 and not _RECEIVED.search(text) and "coercion from" not in text:
        wanted = " or ".join(sorted({"0" if want == "zero" else want for want, _ in counts}))
        plural = "argument" if wanted == "1" else "arguments"
        return f"Function '{name}' expects {wanted} {plural} but received {counts[0][1]}", Reason.WRONG_ARGUMENTS
    found = _MISMATCH_TYPES.search(text) or _MISMATCH_FROM.search(text)
    if own := _MISMATCH_OWN.search(text):
        return in_sql_words(f"Function '{name}' does not accept these arguments: {own['why']}"), Reason.WRONG_ARGUMENTS
    if found is None:
        received = _RECEIVED.search(text)
        types = "" if received is None else f": received {received['type']}"
        return in_sql_words(
            f"Function '{name}' does not accept arguments of these types{types}"
        ), Reason.WRONG_ARGUMENTS
    if not found["types"].strip():
        return f"Function '{name}' expects arguments but received none", Reason.WRONG_ARGUMENTS
    message = (
        f"Function '{name}' does not accept arguments of the types ({found['types']}); add casts to the types it takes"
    )
    return in_sql_words(message), Reason.WRONG_ARGUMENTS


_TYPES: Final = (
    (re.compile(r"\bInterval(?:MonthDayNano|DayTime|YearMonth)\(\"[^\"]*\"\)"), "INTERVAL"),
    (re.compile(r"\b(Timestamp|Time|Duration)\((Second|Millisecond|Microsecond|Nanosecond)(?:, [^)]*\)?)?\)"), r"\1\2"),
    (re.compile(r"\bDictionary\(\w+, (\w+)\)"), r"\1"),
    (re.compile(r"\b(?:Large)?Utf8(?:View)?\b(?!\()"), "String"),
    (re.compile(r"\b(?:Large)?Binary(?:View)?\b(?!\()"), "Binary"),
    (re.compile(r"\bFixedSizeBinary\(\d+\)"), "Binary"),
    (re.compile(r"\bDecimal(?:32|64|128|256)\("), "Decimal("),
    (re.compile(r"\bDecimal(?:32|64|128|256)\b"), "Decimal"),
    (re.compile(r"\bDate(?:32|64)\b(?!\()"), "Date"),
    (re.compile(r"\bInterval\(\w+\)"), "Interval"),
    (re.compile(r"\bTime(?:32|64)\(\w+\)"), "Time"),
    (re.compile(r"\bDuration\(\w+\)"), "Duration"),
    (re.compile(r"\bTimestamp\(s(?:, [^)]*)?\)"), "TimestampSecond"),
    (re.compile(r"\bTimestamp\(ms(?:, [^)]*)?\)"), "TimestampMillisecond"),
    (re.compile(r"\bTimestamp\([µu]s(?:, [^)]*)?\)"), "TimestampMicrosecond"),
    (re.compile(r"\bTimestamp\(ns(?:, [^)]*)?\)"), "TimestampNanosecond"),
    (re.compile(r"\b(?:Large)?(?:Utf8|String)(?:View)?\(\"(.*?)\"\)"), r"'\1'"),
    (
        re.compile(
            r"\b(?:Utf8(?:View)?|U?Int(?:8|16|32|64)|Float(?:16|32|64)|Boolean|Date32|Decimal\d*)\((-?[\w.+-]+)(?:,\d+,-?\d+)?\)"
        ),
        r"\1",
    ),
    (re.compile(r"\bFixedSizeList\(\d+ x ([\w(), ]+?)\)"), r"List<\1>"),
    (re.compile(r"\b(?:Large)?List\(([\w<>]+)\)"), r"List<\1>"),
)
_FRAME_NAME = re.compile(r"\bc[0-9a-f]{32}\.")
"""What the query engine calls the rows that a query is given."""
_ADVICE = re.compile(r"\s*This issue was likely caused by a bug in DataFusion's code.*", re.DOTALL)
_INNER_WRAPPERS = re.compile(
    r"(?:DataFusion error|External error|Execution error|Error during planning|Schema error|Arrow error|Internal error"
    r"|Compute error|Invalid argument error|This feature is not implemented"
    r"|Optimizer rule '\w+' failed\s+caused by|\w+\s+caused by): ?"
)
_SYNTAX_TREE = re.compile(
    r"\s*:?\s*(?:\b(?:Some|Ok|Err|Expr::\w+|[A-Z]\w+)\(+)*\b[A-Z]\w*(?:::\w+)* ?\{.*|\s*:?\s*\b(?:Some|Expr::\w+)\(.*",
    re.DOTALL,
)


def in_sql_words(text: str) -> str:
    """Return a message without what belongs to the inside of the query engine."""
    text = _INNER_WRAPPERS.sub("", _ADVICE.sub("", text))
    for pattern, shown in _TYPES:
        text = pattern.sub(shown, text)
    if (tree := _SYNTAX_TREE.search(text)) is not None:
        text = text[: tree.start()]
    text = _FRAME_NAME.sub("", text).replace("DataFusion", "the query engine").strip()
    return text or "the query engine cannot run this query"
