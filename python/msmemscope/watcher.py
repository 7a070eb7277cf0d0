"""watcher: device memory whose contents are noted before and after each operator (contract 4, abi.md 6.5)."""

from . import _agent

NAME_MAX = 64  # bytes
_INT64 = 1 << 63


class Watcher:
    """Watches blocks of device memory, each a tensor or an address with a length in bytes."""

    def watch(self, *args, **kwargs):
        """watch(tensor, *, name, dump_nums=-1), or watch(address, *, length, name, dump_nums=-1).

        ``dump_nums`` is how often to dump, -1 without limit. The tensor is not kept alive.

        Raises:
            TypeError, ValueError: an argument is missing, unknown or not what is accepted.
            RuntimeError: the process is not recorded, or not with watching.
        """
        if not kwargs:
            raise TypeError("watch() needs at least the keyword name=")
        if "name" not in kwargs:
            raise TypeError("watch() needs name=, which labels what is dumped")
        name = kwargs["name"]
        if not isinstance(name, str):
            raise TypeError("name must be a string, not " + type(name).__name__)
        encoded = name.encode("utf-8", "replace")
        if len(encoded) > NAME_MAX:
            raise ValueError(f"name has at most {NAME_MAX} bytes; {name!r} has {len(encoded)}")
        address, length = self._block("watch", args, kwargs, ("name", "length", "dump_nums"))
        dump_nums = kwargs.get("dump_nums", -1)
        if not _is_int(dump_nums) or not -1 <= dump_nums < 1 << 31:
            raise TypeError(f"dump_nums must be a number from -1, not {dump_nums!r}")
        if _agent.need().ms_watch(address, length, encoded, dump_nums) != 0:
            raise RuntimeError("nothing is watched in this process (--watch), or 256 tensors are already")

    def remove(self, *args, **kwargs):
        """remove(tensor) or remove(address, *, length): ends watch(). Errors are those of watch()."""
        address, length = self._block("remove", args, kwargs, ("length",))
        if _agent.need().ms_unwatch(address, length) != 0:
            raise RuntimeError("this tensor is not watched")

    @staticmethod
    def _block(function, args, kwargs, accepted):
        unknown = [key for key in kwargs if key not in accepted]
        if unknown:
            raise TypeError("{}() does not know {}; accepted: {}".format(function, unknown[0], ", ".join(accepted)))
        if len(args) != 1:
            raise TypeError(f"{function}() takes one tensor or one address without a keyword, not {len(args)}")
        if "length" in kwargs:
            address, length = args[0], kwargs["length"]
            if not _is_int(address):
                raise TypeError("with length= an address is needed, not a " + type(address).__name__)
            if not 0 < address < 2 * _INT64:
                raise TypeError(f"{address} is no address")
            if not _is_int(length) or not 0 < length < _INT64:
                raise TypeError(f"length must be a number of bytes above 0, not {length!r}")
            return address, length
        return _extent(args[0])


def _extent(tensor):
    """Address and bytes of a tensor."""
    if not all(callable(getattr(tensor, name, None)) for name in ("data_ptr", "numel", "element_size")):
        raise TypeError("a tensor is needed, or an address with length=; not a " + type(tensor).__name__)
    try:
        return int(tensor.data_ptr()), int(tensor.numel()) * int(tensor.element_size())
    except Exception as e:
        raise TypeError(f"this tensor has no memory to watch: {e}") from e


def _is_int(value):
    return isinstance(value, int) and not isinstance(value, bool)


watcher = Watcher()
