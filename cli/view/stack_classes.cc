#include "cli/view/stack_classes.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/strings.h"
#include "model/exit_report.h"

namespace muster::cli::inline view {
namespace {

// Returns the last part of a path. Files named __init__.py keep their folder.
std::string short_path(const std::string& path) {
  auto slash = path.rfind('/');
  if (slash == std::string::npos) return path;
  if (path.substr(slash + 1) == "__init__.py" && slash > 0) slash = path.rfind('/', slash - 1);
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

std::string python_text(const v1::PythonFrame& frame) {
  const std::string line = frame.line() > 0 ? fmt::format(":{}", frame.line()) : "";
  return base::printable(fmt::format("{} ({}{})", frame.function(), short_path(frame.file()), line));
}

std::string native_text(const v1::StackFrame& frame) {
  const std::string module = short_path(frame.module());
  const std::string function = frame.function().empty() ? "?" : frame.function();
  return base::printable(module.empty() ? function : fmt::format("{} [{}]", function, module));
}

std::string state_text(const v1::ThreadStack& thread) {
  const std::string& state = thread.state();
  const std::string_view word = state == "R"   ? "running"
                                : state == "S" ? "sleeping"
                                : state == "D" ? "not to be interrupted"
                                : state == "T" ? "stopped"
                                : state == "t" ? "being traced"
                                : state == "I" ? "idle"
                                : state == ""  ? "in a state that is not known"
                                               : "in another state";
  if (thread.wait_channel().empty()) return std::string(word);
  return fmt::format("{} in {}", word, base::printable(thread.wait_channel()));
}

StackClass class_of(const v1::ThreadStack& thread) {
  StackClass result;
  for (const v1::PythonFrame& frame : thread.python()) result.python.push_back(python_text(frame));
  std::ranges::reverse(result.python);
  for (const v1::StackFrame& frame : thread.user()) result.native.push_back(native_text(frame));
  std::ranges::reverse(result.native);
  for (const std::string& frame : thread.kernel()) result.kernel.push_back(base::printable(frame));
  std::vector<std::string> problems;
  for (const std::string& problem : {thread.python_problem(), thread.problem()}) {
    if (!problem.empty()) problems.push_back(base::printable(problem));
  }
  result.problem = base::join(problems, "; ");
  return result;
}

auto key_of(const StackClass& stacks) {
  return std::tuple(stacks.python, stacks.native, stacks.kernel, stacks.problem, stacks.command, stacks.is_main_thread);
}

// Puts classes of few ranks first.
void sort_classes(std::vector<StackClass>& classes) {
  std::ranges::stable_sort(classes, {}, [](const StackClass& stacks) {
    return std::tuple(stacks.ranks.size(), !stacks.command.empty(), !stacks.is_main_thread);
  });
}

bool runs_python(const v1::ProcessStack& process) {
  return !process.python().empty() || !process.python_source().empty();
}

// Returns each rank's own process: the first that runs Python, or else the first.
std::map<int, const v1::ProcessStack*> own_processes(const std::vector<v1::ProcessStack>& processes) {
  std::map<int, const v1::ProcessStack*> own;
  for (const v1::ProcessStack& process : processes) {
    if (process.pid() == 0) continue;
    const auto [known, is_new] = own.emplace(process.rank(), &process);
    if (!is_new && !runs_python(*known->second) && runs_python(process)) known->second = &process;
  }
  return own;
}

// True if a Python thread could not be matched with a thread of the kernel. Then it is not known which of those run no
// Python code.
bool has_unknown_threads(const v1::ProcessStack& process) {
  return std::ranges::any_of(process.threads(), [](const v1::ThreadStack& thread) {
    return thread.tids().empty() && !thread.python().empty();
  });
}

std::vector<std::string> problems_of(const std::vector<v1::ProcessStack>& processes) {
  std::vector<std::string> problems;
  std::map<std::string, std::set<int>> ranks;
  const auto add = [&ranks](const v1::ProcessStack& process, std::string_view problem) {
    ranks[fmt::format("{}: {}", base::printable(process.command()), problem)].insert(process.rank());
  };
  for (const v1::ProcessStack& process : processes) {
    if (!process.python_source().empty()) {
      add(process, fmt::format("Python code of the main thread, read by {}", base::printable(process.python_source())));
    }
    if (process.problem().empty()) continue;
    const std::string problem = base::printable(process.problem());
    if (process.pid() == 0) {
      problems.push_back(problem);
    } else {
      add(process, problem);
    }
  }
  for (const auto& [problem, list] : ranks) problems.push_back(fmt::format("{}, {}", format_rank_set(list), problem));
  return problems;
}

}  // namespace

std::string format_rank_set(const std::set<int>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks",
                     model::format_rank_list({ranks.begin(), ranks.end()}));
}

StackClasses classify_stacks(const std::vector<v1::ProcessStack>& processes) {
  StackClasses result;
  result.looks = 1;
  result.problems = problems_of(processes);
  const auto own = own_processes(processes);
  std::map<decltype(key_of({})), std::size_t> known;
  for (const v1::ProcessStack& process : processes) {
    const auto rank = own.find(process.rank());
    if (process.pid() == 0 || rank == own.end()) continue;
    const bool counts_hidden = !has_unknown_threads(process);
    for (const v1::ThreadStack& thread : process.threads()) {
      StackClass fresh = class_of(thread);
      const int count = std::max(1, thread.tids_size());
      if (!process.python().empty() && fresh.python.empty() && fresh.native.empty() && fresh.problem.empty()) {
        if (counts_hidden) result.hidden_threads += count;
        continue;
      }
      fresh.is_main_thread = std::ranges::find(thread.tids(), process.pid()) != thread.tids().end();
      if (rank->second != &process) fresh.command = base::printable(process.command());
      const auto [found, is_new] = known.emplace(key_of(fresh), result.classes.size());
      if (is_new) result.classes.push_back(std::move(fresh));
      StackClass& to = result.classes[found->second];
      to.ranks.insert(process.rank());
      to.hosts.insert(process.host());
      to.states[state_text(thread)] += count;
      to.threads += count;
      to.thread_name = base::printable(thread.name());
      to.pid = process.pid();
    }
  }
  sort_classes(result.classes);
  return result;
}

void add_look(const StackClasses& look, StackClasses* all) {
  std::map<decltype(key_of({})), std::size_t> known;
  for (std::size_t i = 0; i < all->classes.size(); ++i) known.emplace(key_of(all->classes[i]), i);
  for (const StackClass& fresh : look.classes) {
    const auto [found, is_new] = known.emplace(key_of(fresh), all->classes.size());
    if (is_new) {
      all->classes.push_back(fresh);
      continue;
    }
    StackClass& to = all->classes[found->second];
    to.ranks.insert(fresh.ranks.begin(), fresh.ranks.end());
    to.hosts.insert(fresh.hosts.begin(), fresh.hosts.end());
    for (const auto& [state, count] : fresh.states) to.states[state] += count;
    to.threads += fresh.threads;
  }
  for (const std::string& problem : look.problems) {
    if (std::ranges::find(all->problems, problem) == all->problems.end()) all->problems.push_back(problem);
  }
  all->hidden_threads = std::max(all->hidden_threads, look.hidden_threads);
  all->looks += look.looks;
  sort_classes(all->classes);
}

std::string format_threads(int threads, int total, int looks) {
  if (looks > 1) return fmt::format("{} of {} looks at threads", threads, total);
  return fmt::format("{} {}", threads, threads == 1 ? "thread" : "threads");
}

std::vector<std::string> stack_problems(const std::vector<StackClass>& classes) {
  std::map<std::string, std::set<int>> ranks;
  for (const StackClass& stacks : classes) {
    if (!stacks.problem.empty()) ranks[stacks.problem].insert(stacks.ranks.begin(), stacks.ranks.end());
  }
  std::vector<std::pair<std::size_t, std::string>> order;
  for (const auto& [problem, list] : ranks) {
    order.emplace_back(list.size(), fmt::format("{}: {}", format_rank_set(list), problem));
  }
  std::ranges::sort(order);
  std::vector<std::string> sentences;
  for (auto& [size, sentence] : order) sentences.push_back(std::move(sentence));
  return sentences;
}

CallNode call_tree(const std::vector<StackClass>& classes) {
  CallNode root;
  for (const StackClass& stacks : classes) {
    std::vector<std::string> calls = stacks.python.empty() ? stacks.native : stacks.python;
    if (calls.empty()) continue;
    if (!stacks.command.empty()) calls.front() = fmt::format("{}: {}", stacks.command, calls.front());
    CallNode* node = &root;
    root.threads += stacks.threads;
    for (const std::string& call : calls) {
      node = &node->children[call];
      node->ranks.insert(stacks.ranks.begin(), stacks.ranks.end());
      node->threads += stacks.threads;
    }
    node->ends.insert(stacks.ranks.begin(), stacks.ranks.end());
    if (!stacks.problem.empty()) node->inexact.insert(stacks.ranks.begin(), stacks.ranks.end());
  }
  return root;
}

}  // namespace muster::cli::view
