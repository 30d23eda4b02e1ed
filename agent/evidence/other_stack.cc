#include "agent/evidence/other_stack.h"

#include "agent/evidence/py_spy.h"
#include "agent/evidence/stack_dump.h"
#include "agent/proc/process_environment.h"

namespace muster::agent::inline evidence {

OtherStack read_other_stack(const std::string& session_dir, const ProcessInfo& process,
                            std::chrono::steady_clock::time_point deadline) {
  std::string problem;
  if (!session_dir.empty()) {
    auto dumped = ask_stack_dump(session_dir, process, deadline);
    if (dumped.ok()) return {.source = "faulthandler", .frames = std::move(*dumped)};
    problem = dumped.status().message();
  }
  const std::string py_spy = find_in_path("py-spy", read_environment(process.pid).get("PATH").value_or(""));
  if (py_spy.empty()) return {.problem = std::move(problem)};
  auto spied = ask_py_spy(py_spy, process.pid, deadline);
  if (spied.ok()) return {.source = "py-spy", .frames = std::move(*spied)};
  if (!problem.empty()) problem += "; ";
  return {.problem = problem + spied.status().message()};
}

bool needs_other_stack(const PythonStacks& stacks) {
  return stacks.threads.empty() && !stacks.problem.empty();
}

void add_other_stack(const OtherStack& other, pid_t pid, PythonStacks& stacks) {
  if (other.source.empty()) {
    if (!other.problem.empty()) stacks.problem += "; " + other.problem;
    return;
  }
  stacks.problem.clear();
  stacks.threads.push_back({.tid = pid, .frames = other.frames, .problem = {}});
}

}  // namespace muster::agent::evidence
