"""horovod.common: what all frameworks share."""
