"""Horovod's exceptions."""


class HorovodInternalError(RuntimeError):
    """A collective failed. Where a rank has ended, `rank` and `host` name it; else they are None and ''."""

    def __init__(self, *args, rank=None, host=""):
        super().__init__(*args)
        self.rank = rank
        self.host = host


class RanksDifferError(HorovodInternalError):
    """Ranks have submitted different things under one name. That operation fails on all of them, and nothing else."""


class HostsUpdatedInterrupt(RuntimeError):
    """The hosts of an elastic job have changed. With `skip_sync` the state need not be synchronised again."""

    def __init__(self, skip_sync=False):
        super().__init__()
        self.skip_sync = skip_sync


class HorovodVersionMismatchError(ImportError):
    """Kept for scripts that name it: nothing here is compiled against a framework, so it is never raised."""
