"""The codec of one message in one version: compiled on first use, interpreted where it must explain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from kshim_protocol.frame import ProtocolError
from kshim_protocol.rows import Layout
from kshim_protocol.schema import Struct, has_records

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from kshim_protocol import wire as schemas
    from kshim_protocol.shape import RowTree

    S_co = TypeVar("S_co", covariant=True)

    class Parse(Protocol[S_co]):
        """The shape of `Codec.parse`."""

        def __call__(self, data: bytes, offset: int = 0) -> tuple[S_co, int]: ...


S = TypeVar("S", bound=Struct)

MAX_EXPLAINED_BYTES = 64 * 1024
"""Larger data is not parsed a second time to find out what is wrong with it."""


class Codec(Generic[S]):
    """Parses and builds one version of a message.

    `parse(data, offset)` returns (object, offset after it) and raises ProtocolError; what stands behind the object is
    the caller's business (Kafka tolerates trailing bytes after a request). `build(object)` returns bytes and raises
    BuildError (a ValueError). `tree` is the shape that both follow, and construct's schema with them.

    Of a message with records, `build_pieces(object)` returns the same in pieces, those of the records themselves, so that
    they need not be copied; None for others.
    """

    parse: Parse[S]
    build: Callable[[S], bytes]
    build_pieces: Callable[[S], list[bytes]] | None

    def __init__(self, cls: type[S], version: int) -> None:
        self.cls = cls
        self.version = version
        self._tree: RowTree | None = None
        self._lenient_parse: Parse[S] | None = None
        self.parse = self._parse_first
        self.build = self._build_first
        self.build_pieces = self._build_pieces_first if has_records(cls) else None

    @property
    def tree(self) -> RowTree:
        """The shape of the message."""
        if self._tree is None:
            from kshim_protocol.shape import tree_for

            self._tree = tree_for(self.cls, self.version)
        return self._tree

    @property
    def schema(self) -> schemas.RowTree:
        """Construct's schema of it."""
        from kshim_protocol.wire import RowTree

        return RowTree(self.tree)

    def compile(self) -> None:
        """Generate the code for both directions now (otherwise each is made at its first call)."""
        self._compile_parse()
        self._compile_build()

    def parse_interpreted(self, data: bytes, offset: int = 0) -> tuple[S, int]:
        """`parse` by construct alone: the reference, and the one that knows field and offset of an error."""
        from kshim_protocol.wire import interpreted_parse

        return interpreted_parse(self.tree, self.cls.info, self.version, data, offset)

    def build_interpreted(self, obj: S) -> bytes:
        """`build` by construct alone."""
        from kshim_protocol.wire import interpreted_build

        return interpreted_build(self.tree, self.cls.info, self.version, obj)

    def _compile_parse(self) -> None:
        from kshim_protocol.compiler import compile_parse
        from kshim_protocol.shape import max_elements_of

        self.parse = compile_parse(
            self.tree, self._name(), self._explain_parse, max_elements=max_elements_of(self.cls.info)
        )

    def _compile_build(self) -> None:
        from kshim_protocol.compiler import compile_build, compile_build_pieces

        if self.build_pieces is None:
            self.build = compile_build(self.tree, self._name(), self._explain_build)
            return
        pieces = compile_build_pieces(self.tree, self._name(), lambda obj, error: [self._explain_build(obj, error)])
        self.build_pieces = pieces
        self.build = lambda obj: b"".join(pieces(obj))

    def _parse_first(self, data: bytes, offset: int = 0) -> tuple[S, int]:
        if self.parse == self._parse_first:  # otherwise a caller has kept this method
            self._compile_parse()
        return self.parse(data, offset)

    def _build_first(self, obj: S) -> bytes:
        if self.build == self._build_first:
            self._compile_build()
        return self.build(obj)

    def _build_pieces_first(self, obj: S) -> list[bytes]:
        if self.build_pieces == self._build_pieces_first:
            self._compile_build()
        assert self.build_pieces is not None
        return self.build_pieces(obj)

    def _name(self) -> str:
        return f"{self.cls.info.name} v{self.version}"

    def _explain_parse(self, data: bytes, offset: int, error: Exception) -> tuple[S, int]:
        """The generated code gave up: construct raises, saying where, or reads what generated code does not bother with.

        That is malformed UTF-8 (replaced, as in Java) and varints longer than they need to be. Construct takes twenty
        times as long, so large data is not given to it: text is replaced by other generated code, and what else is
        wrong is refused without saying where.
        """
        from kshim_protocol.compiler_source import Crowd, Fault

        if len(data) - offset > MAX_EXPLAINED_BYTES:
            if isinstance(error, UnicodeDecodeError):
                return self._parse_leniently(data, offset)
            if isinstance(error, Crowd):
                raise self._refused("more elements or tagged fields than a message may hold", offset)
            raise self._refused("malformed, and too large to say where", offset)
        found = self.parse_interpreted(data, offset)
        if not isinstance(error, (UnicodeDecodeError, Fault)):
            raise AssertionError(f"{self._name()}: compiled and interpreted parse differ on {data.hex()}") from error
        return found

    def _parse_leniently(self, data: bytes, offset: int) -> tuple[S, int]:
        if self._lenient_parse is None:
            from kshim_protocol.compiler import compile_parse
            from kshim_protocol.shape import max_elements_of

            self._lenient_parse = compile_parse(
                self.tree,
                f"{self._name()} leniently",
                self._explain_parse,
                max_elements=max_elements_of(self.cls.info),
                is_lenient=True,
            )
        return self._lenient_parse(data, offset)

    def _refused(self, reason: str, offset: int) -> ProtocolError:
        return ProtocolError(reason, message=self.cls.info.name, version=self.version, field="", offset=offset)

    def _explain_build(self, obj: S, error: Exception) -> bytes:
        """The generated code gave up: a value that cannot travel, or unknown tagged fields (left to construct)."""
        return self.build_interpreted(obj)


def _struct_parser(layout: Layout[S]) -> Callable[[bytes, int], tuple[S, int]]:
    """What reads one struct, out of bytes that are known to hold it: whatever else it finds is an AssertionError."""
    from kshim_protocol.compiler import compile_parse
    from kshim_protocol.shape import struct_tree_for

    cls, version = layout.cls, layout.version

    def explain(data: bytes, offset: int, error: Exception) -> tuple[S, int]:
        raise AssertionError(f"{data[offset:].hex()} holds no {cls.__name__}") from error

    return compile_parse(
        struct_tree_for(cls, version, is_flexible=layout.is_flexible), f"{cls.__name__} v{version}", explain
    )


def _struct_builder(layout: Layout[S]) -> Callable[[S], bytes]:
    """What builds one struct. It raises BuildError."""
    from kshim_protocol.compiler import compile_build
    from kshim_protocol.shape import struct_tree_for

    cls, version = layout.cls, layout.version
    tree = struct_tree_for(cls, version, is_flexible=layout.is_flexible)
    name = f"{cls.__name__} v{version}"

    def explain(struct: S, error: Exception) -> bytes:
        from kshim_protocol.wire import interpreted_struct_build

        return interpreted_struct_build(tree, name, struct)

    return compile_build(tree, name, explain)


Layout.make_parser = _struct_parser
Layout.make_builder = _struct_builder


def codec(cls: type[S], version: int) -> Codec[S]:
    """The codec of one version, made on first use. Raises ValueError when the message has no such version."""
    found: Codec[S] | None = cls.info.codecs.get(version)
    if found is None:
        versions = cls.info.versions
        if versions is None or not versions[0] <= version <= versions[1]:
            raise ValueError(f"{cls.info.name} has no version {version}")
        found = cls.info.codecs[version] = Codec(cls, version)
    return found
