"""Memory that the ranks of a host share. A reduction there copies nothing."""

from muster import _library as lib
from muster import world
from muster.engine import Buffer


def new(size, name, process_set):
    """Returns `size` zero bytes as an engine.Output. Collective over `process_set`: all ranks ask for the same size.

    The memory lives as long as the Output's data, also after shutdown().
    RanksDifferError: a rank asks for another size, or has joined. HorovodInternalError: it failed."""
    ticket = world.submit(lib.BUFFER, world.operation_name("registered", name, process_set),
                          [Buffer(0, 0, lib.UINT8, (size,), None)], process_set)
    ticket.wait()
    return ticket.output()
