"""horovod.runner.util.threads."""

from muster.threads import in_thread, on_event
