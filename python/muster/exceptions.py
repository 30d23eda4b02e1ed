"""Horovod's exceptions."""


class HorovodInternalError(RuntimeError):
    """A collective failed. If a rank has ended, `rank` and `host` name that rank. Otherwise they are None and ''."""

    def __init__(self, *args, rank=None, host=""):
        super().__init__(*args)
        self.rank = rank
        self.host = host


class RanksDifferError(HorovodInternalError):
    """Ranks have submitted different things under one name. Only that operation fails, on all ranks."""


class HostsUpdatedInterrupt(RuntimeError):
    """The hosts of an elastic job have changed. If `skip_sync` is True, the state need not be synchronized again."""

    def __init__(self, skip_sync=False):
        super().__init__()
        self.skip_sync = skip_sync


class HorovodVersionMismatchError(ImportError):
    """Exists for scripts that name it. Muster never raises it, because Muster is not compiled against a framework."""
