"""Tells PSI/J of its executor for launcherd: JobExecutor.get_instance("muster"). PSI/J looks for this folder by its name."""

from packaging.version import Version
from psij.descriptor import Descriptor

__PSI_J_EXECUTORS__ = [Descriptor(name="muster", version=Version("0.1.0"), cls="muster.adapters.psij.MusterJobExecutor")]
