"""Horovod's `_basics`: the functions about this process and its job, as methods of one object."""

from muster import engine, world

_FUNCTIONS = ("init", "shutdown", "is_initialized", "start_timeline", "stop_timeline", "size", "local_size",
              "cross_size", "rank", "local_rank", "cross_rank", "is_homogeneous", "mpi_threads_supported",
              "mpi_enabled", "mpi_built", "gloo_enabled", "gloo_built", "nccl_built", "ddl_built", "ccl_built",
              "cuda_built", "rocm_built")


class HorovodBasics:
    """All objects of this class describe this process. The constructor ignores its arguments: in Horovod they name a
    library to load."""

    Average, Sum, Adasum = engine.Average, engine.Sum, engine.Adasum
    Min, Max, Product = engine.Min, engine.Max, engine.Product

    def __init__(self, pkg_path=None, *args):
        del pkg_path, args

    def _get_process_set_ids_and_ranks(self):
        """Returns {id: ranks} of all known process sets, including the global one."""
        return {number: list(world.get_process_set_by_id(number).ranks) for number in world.process_set_ids()}

    def _process_set_rank(self, process_set_id):
        """Returns this rank's number in the set. ValueError: the set is unknown, or this rank is not in it."""
        return world.get_process_set_by_id(process_set_id).rank()

    def _process_set_size(self, process_set_id):
        """Returns the number of ranks of the set. ValueError: the set is unknown."""
        return world.get_process_set_by_id(process_set_id).size()


for _name in _FUNCTIONS:
    setattr(HorovodBasics, _name, staticmethod(getattr(world, _name)))
