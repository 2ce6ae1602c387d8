"""How the tests are shared out among the workers of pytest-xdist, so that one whose test hangs costs one test.

A worker ends itself where a test hangs (`faulthandler_exit_on_timeout`). As pytest-xdist 3.8 has it, the worker that
takes its place is given the same test again, or, late in a run, so little that it waits for ever and the run with it.
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController


class LoadScopeScheduler(LoadScopeScheduling):
    """Goes on behind the test that ended a worker."""

    def remove_node(self, node: WorkerController) -> str | None:
        crashed: str | None = super().remove_node(node)
        if crashed is not None:
            for unit in self.workqueue.values():
                unit.pop(crashed, None)
            for scope in [scope for scope, unit in self.workqueue.items() if all(unit.values())]:
                del self.workqueue[scope]
        return crashed

    def schedule(self) -> None:
        super().schedule()
        for node in self.nodes:  # one waits until it has two tests or is told that there are no more
            while not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
                self._reschedule(node)
