"""Data loaders. One of them can prepare batches ahead of time in a thread.

    class Loader(AsyncDataLoaderMixin, MyDataLoader):   # MyDataLoader(BaseDataLoader) has _iterate()
        pass

    loader = Loader(async_loader_queue_size=8)
    for batch in loader: ...
    loader.close_async_loader()
"""

import collections
import threading


class BaseDataLoader:
    """The interface of a loader: __len__(), and _iterate(), which yields the batches of one epoch."""

    def __len__(self):
        raise NotImplementedError()

    def _iterate(self):
        raise NotImplementedError()

    def _process_batch(self, batch):
        """Processes a batch. It runs in the thread that iterates."""
        return batch

    def __iter__(self):
        for batch in self._iterate():
            yield self._process_batch(batch)


class _Epoch:
    """One run of _iterate() in a thread, which loads at most `ahead` batches ahead. One thread uses the batches. Any
    thread may stop the run."""

    def __init__(self, iterate, ahead):
        self._iterate = iterate
        self._ahead = ahead
        self._changed = threading.Condition()
        # (batch, None) for each batch, then (None, the exception that ended the run)
        self._loaded = collections.deque()
        self.is_stopped = False
        self._thread = threading.Thread(target=self._load, name="muster-data", daemon=True)

    def _load(self):
        try:
            for batch in self._iterate():
                if not self._put(batch, None):
                    return
            self._put(None, StopIteration())
        except BaseException as problem:  # the thread that iterates raises it
            self._put(None, problem)

    def _put(self, batch, end):
        """Waits for room and adds the batch. Returns False if stop() was called."""
        with self._changed:
            self._changed.wait_for(lambda: self.is_stopped or len(self._loaded) < self._ahead)
            if not self.is_stopped:
                self._loaded.append((batch, end))
                self._changed.notify_all()
            return not self.is_stopped

    def batches(self):
        """Starts the thread and yields the batches, until all are used or stop() is called."""
        with self._changed:
            if not self.is_stopped:
                self._thread.start()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self.is_stopped or self._loaded)
                if self.is_stopped:
                    return
                batch, end = self._loaded.popleft()
                self._changed.notify_all()
            if isinstance(end, StopIteration):
                return
            if end is not None:
                raise end
            yield batch

    def stop(self):
        """Stops the thread and waits for its end. Loaded batches are dropped."""
        with self._changed:
            self.is_stopped = True
            self._loaded.clear()
            self._changed.notify_all()
            is_started = self._thread.ident is not None
        if is_started:
            self._thread.join()


class AsyncDataLoaderMixin:
    """Makes _iterate() run in a thread, up to async_loader_queue_size batches ahead. 0 changes nothing. Name this mixin
    before a BaseDataLoader among the bases. Every iteration has its own thread."""

    def __init__(self, async_loader_queue_size=64, *args, **kwargs):
        self.async_loader_queue_size = async_loader_queue_size
        self._epochs = set()
        super().__init__(*args, **kwargs)

    def close_async_loader(self):
        """Ends all threads and their iterations. The loader can be iterated again."""
        for epoch in list(self._epochs):
            epoch.stop()

    def __iter__(self):
        if self.async_loader_queue_size <= 0:
            yield from super().__iter__()
            return
        epoch = _Epoch(self._iterate, self.async_loader_queue_size)
        self._epochs.add(epoch)
        try:
            for batch in epoch.batches():
                yield self._process_batch(batch)
        finally:
            self._epochs.discard(epoch)
            if not epoch.is_stopped:  # otherwise the caller of stop() already waits for the thread
                epoch.stop()
