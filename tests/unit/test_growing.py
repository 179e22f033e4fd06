"""What grows unless it is told otherwise has a row in docs/limits.md, or a reason to have none."""

import ast
from collections.abc import Iterator

from tests.unit.limits_exempt import GROWING
from tests.unit.test_limits import bounds_of, expect_a_row_or_a_reason, named_in_code

_LENGTH_AT = {"deque": 1, "Queue": 0, "LifoQueue": 0, "PriorityQueue": 0, "SimpleQueue": 0}
"""Which argument of theirs is the length, where it is not given by name."""


def growing_of(source: str) -> set[str]:
    """Where a module makes deques and queues without a length, and its functions that remember
    what they were asked: by class, and by name.

    A cache whose size is a constant that is named as a bound is found by that name.
    """
    return {name for statement in ast.parse(source).body for name in _growing(statement, ())}


def _growing(node: ast.AST, within: tuple[str, ...]) -> Iterator[str]:
    match node:
        case ast.ClassDef(name=name):
            within = (*within, name)
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            within = (*within, name)
            if any(map(_remembers, node.decorator_list)):
                yield ".".join(within)
        case ast.Assign(targets=[target, *_]) | ast.AnnAssign(target=target):
            name = ast.unparse(target)
            is_own = name.startswith("self.")
            within = (within[0], name.removeprefix("self.")) if is_own else (*within, name)
        case ast.Call() if _has_no_end(node):
            yield ".".join(within)
    for child in ast.iter_child_nodes(node):
        yield from _growing(child, within)


def _has_no_end(call: ast.Call) -> bool:
    made = _last_name(call.func)
    if made == "field":
        return any(_last_name(one.value) in _LENGTH_AT for one in call.keywords)
    return made in _LENGTH_AT and not _length_of(call, _LENGTH_AT[made])


def _remembers(decorator: ast.expr) -> bool:
    match decorator:
        case ast.Call(func=func) if _last_name(func) == "lru_cache":
            length = _length_of(decorator, 0)
            return not (isinstance(length, ast.Name) and bounds_of(f"{length.id} = 1"))
        case _:
            return _last_name(decorator) in {"cache", "lru_cache"}


def _length_of(call: ast.Call, at: int) -> ast.expr | None:
    """The argument that is the length; None where it says that there is none."""
    named = [one.value for one in call.keywords if one.arg in {"maxlen", "maxsize"}]
    length = next(iter([*named, *call.args[at:]]), None)
    return None if isinstance(length, ast.Constant) and not length.value else length


def _last_name(node: ast.expr) -> str:
    """Of `a`, `b.a` and `a[int]`: a."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(value=value):
            return _last_name(value)
        case _:
            return ""


def test_what_grows_is_known_by_how_it_is_made() -> None:
    source = """
QUEUE = Queue()
LAST = deque([1], 5)
class A:
    items: deque[int] = field(default_factory=deque)
    def __init__(self):
        self._all = deque[int](())
        self._none = deque((), None)
        self._news = asyncio.Queue(maxsize=1)
        self._told: Queue[int] = asyncio.Queue(maxsize=0)
        self._few = deque(maxlen=FEW)
        self._one = Queue(1)
    def take(self):
        self._all = deque()
        waiting = queue.SimpleQueue()
        return deque(self._all)
    @functools.cache
    def asked(self): ...
    @cached_property
    def once(self): ...
@lru_cache
def some(): ...
@lru_cache(maxsize=100)
def more(): ...
@lru_cache(maxsize=None)
async def all_(): ...
@lru_cache(maxsize=NAMES_MAX)
def bounded(): ...
"""
    assert growing_of(source) == {
        *("QUEUE", "A.items", "A._all", "A._none", "A._told", "A.take.waiting", "A.take"),
        *("A.asked", "some", "more", "all_"),
    }


def test_whatever_grows_has_a_row_or_a_reason_to_have_none() -> None:
    expect_a_row_or_a_reason(named_in_code(growing_of), GROWING)
