"""Test hosts on one machine: see README.md."""

from .hosts import Cluster, unavailable
from .processes import Command, Process
from .state import ClusterError, destroy, sweep

__all__ = ["Cluster", "ClusterError", "Command", "Process", "destroy", "sweep", "unavailable"]
