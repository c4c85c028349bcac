"""Removes from function names the parts that differ by release: arguments, template parameters, compiler suffixes."""

import re

# foo.isra.0, foo.cold, foo(int) [clone .part.3], memcpy@@GLIBC_2.14, recv@plt, and foo'2 where callgrind meets a
# recursion.
_SUFFIXES = re.compile(
    r"(?: \[clone [^\]]*\]|\.(?:isra|part|constprop|cold|warm|lto_priv|localalias|llvm)(?:\.\d+)*"
    r"|@@?[A-Za-z][\w.]*|'\d+)+$"
)
_OPERATOR = re.compile(
    r"operator(?:\(\)|\[\]|->\*|->|<=>|<<=|>>=|<<|>>|<=|>=|<|>|&&|\|\||\+\+|--|[-+*/%^&|~!=,]=?"
    r"|\"\" ?\w+| (?:new|delete)(?:\[\])?| [^(]+)"
)
_QUALIFIERS = re.compile(r"(?: (?:const|volatile|noexcept|&&|&))+(?=$|::)")
_INLINE_NAMESPACES = re.compile(r"\b(?:__cxx11|__1|_V2)::")
_THUNK = re.compile(r"^(?:non-virtual|virtual|covariant return) thunk to ")
# The C library has internal names for a function beside the name in the manual, and variants for processor types.
_C_ALIAS = re.compile(
    r"(?:__GI_)?(?:__libc_(?!start)|_{2,3}(?=pthread_)|__(?=(?:send|sendto|recv|recvfrom|poll|ppoll|read|write|pread64"
    r"|pwrite64|fsync|fdatasync|setsockopt|mmap|munmap|clock_gettime)$))?"
)
_C_VARIANT = re.compile(r"__((?:mem|str|wcs|wmem)[a-z]+)_(?:sse|ssse|avx|evex|erms|unaligned)\w*")
_ANONYMOUS = "(anonymous namespace)::"
_CLOSES = {"<": ">", "(": ")", "{": "}", "[": "]"}
_KEPT_SPACE = "\x00"


def readable(name: str) -> str:
    """The name without arguments, template parameters and suffixes; a name that can't be parsed is unchanged.

    >>> readable("bool RefIterator<false>::Read(THD*) const [clone .isra.0]")
    'RefIterator::Read'
    >>> readable("std::vector<int, std::allocator<int> >::operator[](unsigned long)")
    'std::vector::operator[]'
    >>> readable("dispatch_sql_command(THD*, Parser_state*)::{lambda(int)#1}::operator()(int) const")
    'dispatch_sql_command::{lambda#1}::operator()'
    """
    plain = _SUFFIXES.sub("", name)
    if not any(mark in plain for mark in "<({ ["):
        return plain or name
    thunk = _THUNK.match(plain)
    folded = _without_groups(plain)
    if folded is None:
        return name
    folded = _INLINE_NAMESPACES.sub("", _QUALIFIERS.sub("", folded.rstrip()))
    if len(folded) < len(plain) or thunk:
        folded = folded.rpartition(" ")[2]  # the text before the last space is the return type
    return folded.replace(_KEPT_SPACE, " ") or name


def of_the_c_library(name: str) -> str:
    """The manual's name of a function of the C library; any other name is unchanged.

    >>> of_the_c_library("__GI___libc_write"), of_the_c_library("__memmove_avx512_unaligned_erms")
    ('write', 'memmove')
    >>> of_the_c_library("___pthread_mutex_lock"), of_the_c_library("__libc_start_main")
    ('pthread_mutex_lock', '__libc_start_main')
    """
    if not name.startswith("__"):
        return name
    variant = _C_VARIANT.fullmatch(name)
    return variant[1] if variant else _C_ALIAS.sub("", name, count=1)


def _without_groups(text: str) -> str | None:
    """The text without bracketed groups, except those that `_what_stays` keeps; None if brackets don't match."""
    letters: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        if char == "o" and (operator := _operator(text, at)):
            letters.append(operator.replace(" ", _KEPT_SPACE))
            at += len(operator)
        elif text.startswith(_ANONYMOUS, at):
            at += len(_ANONYMOUS)
        elif char in _CLOSES:
            end = _end_of_group(text, at)
            if end is None:
                return None
            letters.append(_what_stays(text[at:end]))
            at = end
        else:
            letters.append(char)
            at += 1
    return "".join(letters)


def _what_stays(group: str) -> str:
    if group[0] == "{":
        inner = _without_groups(group[1:-1])
        return "{" + (group[1:-1] if inner is None else inner).replace(" ", _KEPT_SPACE) + "}"
    if group[0] == "[" and not group.startswith("[abi:"):
        return group.replace(" ", _KEPT_SPACE)
    return ""


def _operator(text: str, at: int) -> str | None:
    if at and (text[at - 1].isalnum() or text[at - 1] in "_$"):
        return None
    operator = _OPERATOR.match(text, at)
    return operator[0] if operator else None


def _end_of_group(text: str, at: int) -> int | None:
    """The index just after the bracket that closes the bracket at `at`; None if there is none."""
    waiting: list[str] = []
    while at < len(text):
        char = text[at]
        if char == "o" and (operator := _operator(text, at)) and not operator.startswith("operator "):
            at += len(operator)
            continue
        if char in _CLOSES:
            waiting.append(_CLOSES[char])
        elif char == ">":
            # the `>` in `(a > b)` or `->` closes no group
            if waiting[-1] == ">" and text[at - 1] != "-":
                waiting.pop()
        elif char in ")}]":
            while waiting and waiting[-1] != char:
                waiting.pop()
            if not waiting:
                return None
            waiting.pop()
        at += 1
        if not waiting:
            return at
    return None
