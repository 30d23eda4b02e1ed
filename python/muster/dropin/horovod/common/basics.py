"""horovod.common.basics."""

from muster.basics import HorovodBasics
