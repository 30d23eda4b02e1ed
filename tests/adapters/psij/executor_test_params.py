"""What psij-python's tests import by this name: an executor, and a launcher of PSI/J. Its released sources lack the file."""


class ExecutorTestParams:
    def __init__(self, executor, launcher):
        self.executor, self.launcher, self.url = executor, launcher, None
        self.queue_name = self.multi_node_queue_name = self.account = None
        self.custom_attributes = {}

    def __str__(self):
        return f"{self.executor}:{self.launcher}"
