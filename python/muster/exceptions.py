"""Horovod's exceptions."""


class HorovodInternalError(RuntimeError):
    """A collective failed. If a rank has ended, `rank` and `host` name it; otherwise they are None and ''."""

    def __init__(self, *args, rank=None, host=""):
        super().__init__(*args)
        self.rank = rank
        self.host = host


class RanksDifferError(HorovodInternalError):
    """Ranks have submitted different things under one name. Only that operation fails, on all ranks."""


class HostsUpdatedInterrupt(RuntimeError):
    """The hosts of an elastic job have changed. With `skip_sync` the state need not be synchronised again."""

    def __init__(self, skip_sync=False):
        super().__init__()
        self.skip_sync = skip_sync


class HorovodVersionMismatchError(ImportError):
    """Exists for scripts that name it. It is never raised, because Muster is compiled against no framework."""
