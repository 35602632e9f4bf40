#!/usr/bin/env python3
"""Refuses stores to the shared segment that do not go through runtime/store/segment_access.h.

A client may die between any two stores to the segment. Tests kill one at each of them, which is a proof only when every store
is a failpoint; so every store is one of MOB_SEG_STORE, _CAS, _ADD, _OR, _XCHG, _COPY, and this script refuses the others:

- raw atomic writes (atomic_store, atomic_fetch_*, __atomic_*, ...) in runtime/ and sdk/c/. An atomic that other processes
  cannot see says so in a comment of the same statement: /* private: why */
- assignments, ++, --, memcpy and the like through a pointer to a `struct mob_seg_...`, the tag of everything that lives in the
  segment: through a variable, a parameter, a struct's member, a cast, a function that returns one, or a local pointer that is
  initialised from one (p = &entry->field). A private copy reached by such a pointer says /* private: why */ as well.

It reads text, not types. A store through a void pointer that was kept elsewhere, or inside a function that takes a plain
`uint32_t *`, is not seen: give shared memory a mob_seg_ type, and take that type.

    check_segment_stores.py [ROOT]      prints file:line: reason, exit status 1 when there is any
"""
import re
import sys
from pathlib import Path

FOLDERS = ["runtime", "sdk/c"]
WRAPPERS = "runtime/store/segment_access.h"

RAW_ATOMIC = re.compile(
    r"\b(atomic_(?:store|fetch_\w+|compare_exchange\w*|exchange|flag_\w+)(?:_explicit)?|atomic_init"
    r"|__atomic_(?!load|thread_fence|signal_fence|is_lock_free|always_lock_free)\w+|__sync_\w+)\s*\("
)
PRIVATE = re.compile(r"/\*\s*private:\s*\w.*?\*/", re.DOTALL)
SEG_POINTER = r"struct\s+mob_seg_\w+\s*\*"
QUALIFIERS = r"(?:\s*(?:const|restrict|_Atomic|volatile))*\s*"
DECLARED = re.compile(r"(?<![\w])(const\s+)?" + SEG_POINTER + QUALIFIERS + r"(\w+)\s*(\(|\[)?")
WRITING_CALLS = r"(?:__builtin_)?(?:memcpy|memmove|memset|mempcpy|strcpy|strncpy|stpcpy|snprintf|sprintf|explicit_bzero|bzero)"
READING_CALLS = r"(?:read|pread|recv)"  # what they write comes second
ASSIGN = r"(?:=(?!=)|\+=|-=|\*=|/=|%=|&=|\|=|\^=|<<=|>>=|\+\+|--)"
# What may stand between the pointer and the operator: members, elements.
STEPS = r"(?:\s*(?:->|\.)\s*\w+|\s*\[[^\]\n]*\])"

COMMENT_OR_STRING = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)


def blanked(text):
    """Comments and the insides of strings become blanks; positions and lines stay."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match.group())
    return COMMENT_OR_STRING.sub(blank, text)


def private_spans(text):
    """Spans of the statements that carry a /* private: why */ comment: inside, behind the ; on its line, or right above."""
    spans = []
    for match in PRIVATE.finditer(text):
        start, end = match.span()
        code_before = blanked(text[:start])
        line_start = text.rfind("\n", 0, start) + 1
        line_end = text.find("\n", end)
        line_end = len(text) if line_end < 0 else line_end
        if not code_before[line_start:].strip() and not text[end:line_end].strip():
            statement_end = re.compile(r"[;{}]").search(blanked(text), end)  # alone on its line: the statement below
            spans.append((start, statement_end.end() if statement_end else line_end))
            continue
        # The statement that the comment ends or interrupts, back to the previous ; { or }.
        before = code_before.rstrip()
        closes = before.endswith((";", "{", "}"))
        begin = max(before.rfind(mark, 0, len(before) - (1 if closes else 0)) for mark in ";{}") + 1
        spans.append((min(begin, line_start) if closes and begin > line_start else begin, line_end))
    return spans


def regions(code):
    """(start, end) of each outermost definition: the text up to the brace that closes it, parameters included."""
    depth, start = 0, 0
    for position, char in enumerate(code):
        if char == "{":
            depth += 1
        elif char == "}":
            depth -= 1
            if depth <= 0:
                depth = 0
                yield start, position + 1
                start = position + 1
        elif char == ";" and depth == 0:
            yield start, position + 1
            start = position + 1


def declared_pointers(code):
    """Names of variables and parameters, and names of functions, that are pointers to mob_seg_ structs and not to const ones."""
    variables, functions = set(), set()
    for match in DECLARED.finditer(code):
        const, name, bracket = match.groups()
        if not const:
            (functions if bracket == "(" else variables).add(name)
    return variables, functions


def is_struct_body(region):
    return re.match(r"\s*(?:#[^\n]*\n\s*)*(?:static\s+|typedef\s+)?(?:struct|union)\b[^()]*\{", region) is not None


def aliases(region, names, functions):
    """Local pointers that are initialised from one of names: T *p = &entry->x, T *p = (T *)entry, T *p = entry->list."""
    known = set(names)
    while True:
        bases = "|".join(sorted(known | {f + r"\s*\([^;]*?\)" for f in functions})) or r"(?!)"
        found = set()
        for match in re.finditer(
            r"(?:^|[;{}(])\s*((?:\w+\s+)*?)(?:struct\s+)?\w+\s*\*" + QUALIFIERS + r"(\w+)\s*="
            r"\s*(?:\([\w\s]+\*[\s*]*\)\s*\(?\s*|&\s*\(?\s*)+(?:" + bases + r")\b[^;]*;", region):
            qualifiers, name = match.groups()
            if "const" not in qualifiers.split():
                found.add(name)
        if found <= known:
            return known
        known |= found


def store_patterns(names, members, functions):
    """What a store looks like: through a named pointer, a member that is one, the result of a function, or a cast."""
    bases = [r"\(\s*\(\s*" + SEG_POINTER + r"\s*\)[^;{}]*?\)"]
    bases += [r"(?<![\w.>])" + name + r"\b" for name in sorted(names)]
    bases += [r"(?:->|\.)\s*" + member + r"\b" for member in sorted(members)]
    bases += [r"\b" + function + r"\s*\((?:[^();]|\([^();]*\))*\)" for function in sorted(functions)]
    base = "(?:" + "|".join(bases) + ")"
    indexed = r"(?:\s*\[[^\]\n]*\])"
    through = base + r"(?:\s*->\s*\w+|" + indexed + r")" + STEPS + "*"
    starred = r"(?:^|[;{}(])\s*\*\s*\(?\s*" + base + r"\s*\)?"
    parenthesised = r"\(\s*\*\s*" + base + r"\s*\)" + STEPS + "+"
    target = r"(?:" + through + "|" + starred + "|" + parenthesised + ")"
    # The written argument: memcpy(&entry->x, memcpy(store->entries, memcpy((char *)entry + 8, read(fd, entry->x,
    argument = r"(?:\([\w\s]+\*+\s*\)|&|\(|\s)*(?:\w+\s*(?:->|\.)\s*)*(?:\w+\s*(?=->|\.))?" + base
    return [
        re.compile(target + r"\s*" + ASSIGN, re.MULTILINE),
        re.compile(r"(?:\+\+|--)\s*\(?\s*" + target),
        re.compile(r"\b" + WRITING_CALLS + r"\s*\(" + argument),
        re.compile(r"\b" + READING_CALLS + r"\s*\([^,;]*,\s*" + argument),
    ]


def read_tree(root):
    files = {}
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.[ch]")):
            files[path.relative_to(root).as_posix()] = path.read_text(encoding="utf-8", errors="replace")
    files.pop(WRAPPERS, None)
    return files


def shared_names(codes):
    """Members of structs, and functions, anywhere in the tree, that are pointers into the segment."""
    members, functions = set(), set()
    for code in codes:
        for start, end in regions(code):
            region = code[start:end]
            variables, returning = declared_pointers(region)
            functions |= returning
            if is_struct_body(region):
                members |= variables
    return members, functions


def problems_in(text, code, members, functions):
    found = {}
    for match in RAW_ATOMIC.finditer(code):
        found[match.start()] = f"raw {match.group(1)}: use MOB_SEG_*, or say /* private: why */"
    for start, end in regions(code):
        region = code[start:end]
        if is_struct_body(region):
            continue
        names = aliases(region, declared_pointers(region)[0], functions)
        for pattern in store_patterns(names, members, functions):
            for match in pattern.finditer(region):
                where = start + match.start() + len(match.group()) - len(match.group().lstrip(" \t\n;{}("))
                found[where] = f"store to the segment outside of {WRAPPERS}: {' '.join(match.group().split())}"
    private = private_spans(text)
    for where, reason in sorted(found.items()):
        if not any(start <= where < end for start, end in private):
            yield text.count("\n", 0, where) + 1, reason


def main(arguments):
    root = Path(arguments[1]) if len(arguments) > 1 else Path(__file__).resolve().parent.parent
    texts = read_tree(root)
    codes = {path: blanked(text) for path, text in texts.items()}
    members, functions = shared_names(codes.values())
    problems = 0
    for path, text in texts.items():
        for line, reason in problems_in(text, codes[path], members, functions):
            print(f"{path}:{line}: {reason}")
            problems += 1
    print(f"{len(texts)} files, {problems} stores outside of the wrapper")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
