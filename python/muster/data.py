"""Data loaders of which one can be told to work ahead in a thread.

    class Loader(AsyncDataLoaderMixin, MyDataLoader):   # MyDataLoader(BaseDataLoader) has _iterate()
        pass

    loader = Loader(async_loader_queue_size=8)
    for batch in loader: ...
    loader.close_async_loader()
"""

import queue
import threading


class BaseDataLoader:
    """What a loader is: __len__(), and _iterate(), which yields the batches of one epoch."""

    def __len__(self):
        raise NotImplementedError()

    def _iterate(self):
        raise NotImplementedError()

    def _process_batch(self, batch):
        """What is done to a batch in the thread that takes it."""
        return batch

    def __iter__(self):
        for batch in self._iterate():
            yield self._process_batch(batch)


class _Epoch:
    """One run of _iterate() in a thread, at most `ahead` batches ahead."""

    def __init__(self, iterate, ahead):
        self._iterate = iterate
        self._queue = queue.Queue(ahead)
        self._is_stopped = False
        self._thread = threading.Thread(target=self._load, name="muster-data", daemon=True)
        self._thread.start()

    def _load(self):
        try:
            for batch in self._iterate():
                self._queue.put((batch, None))
                if self._is_stopped:
                    return
            self._queue.put((None, StopIteration()))
        except Exception as problem:  # it is the caller's, who is in another thread
            self._queue.put((None, problem))

    def batches(self):
        while True:
            batch, end = self._queue.get()
            if isinstance(end, StopIteration):
                return
            if end is not None:
                raise end
            yield batch

    def stop(self):
        """Returns when the thread has ended; what it had loaded is dropped."""
        self._is_stopped = True
        while self._thread.is_alive():
            try:
                self._queue.get(timeout=0.05)
            except queue.Empty:
                pass
        self._thread.join()


class AsyncDataLoaderMixin:
    """Comes before a BaseDataLoader among the bases: _iterate() then runs in a thread, so many batches ahead. With
    async_loader_queue_size=0 nothing changes. One iteration at a time."""

    def __init__(self, async_loader_queue_size=64, *args, **kwargs):
        self.async_loader_queue_size = async_loader_queue_size
        self._epoch = None
        super().__init__(*args, **kwargs)

    def close_async_loader(self):
        """Ends the thread, if there is one; the loader can be iterated again."""
        epoch, self._epoch = self._epoch, None
        if epoch is not None:
            epoch.stop()

    def __iter__(self):
        self.close_async_loader()
        if self.async_loader_queue_size <= 0:
            yield from super().__iter__()
            return
        self._epoch = _Epoch(self._iterate, self.async_loader_queue_size)
        try:
            for batch in self._epoch.batches():
                yield self._process_batch(batch)
        finally:
            self.close_async_loader()
