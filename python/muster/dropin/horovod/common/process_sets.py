"""horovod.common.process_sets."""

from muster.world import (ProcessSet, add_process_set, get_process_set_by_id, global_process_set, process_set_ids,
                          remove_process_set)
