#include "cli/view/stack_view.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "base/strings.h"
#include "cli/view/stack_classes.h"
#include "proto/message_json.h"

namespace muster::cli::inline view {
namespace {

constexpr std::size_t kColumns = 110;
constexpr std::size_t kMaxClasses = 30;
constexpr std::size_t kMaxHosts = 6;
constexpr std::size_t kMaxStates = 3;

// n12 is n and 12. The number has at most nine digits and no leading zero.
struct NumberedHost {
  std::string prefix;
  long number = 0;
};
std::optional<NumberedHost> numbered(const std::string& host) {
  const auto digits = host.find_last_not_of("0123456789") + 1;
  if (digits == host.size() || host.size() - digits > 9 || host[digits] == '0') return std::nullopt;
  return NumberedHost{host.substr(0, digits), *base::parse_decimal(host.substr(digits), 1L << 30)};
}

// Returns "n1-n8,login". At most kMaxHosts parts.
std::string host_ranges(const std::set<std::string>& hosts) {
  std::map<std::string, std::set<long>> numbers;
  std::vector<std::string> parts;
  for (const std::string& host : hosts) {
    if (const auto known = numbered(host)) {
      numbers[known->prefix].insert(known->number);
    } else {
      parts.push_back(base::printable(host));
    }
  }
  for (const auto& [prefix, list] : numbers) {
    const std::string name = base::printable(prefix);
    for (auto first = list.begin(); first != list.end();) {
      auto last = first;
      for (auto next = std::next(last); next != list.end() && *next == *last + 1; ++next) last = next;
      parts.push_back(first == last ? fmt::format("{}{}", name, *first)
                                    : fmt::format("{}{}-{}{}", name, *first, name, *last));
      first = std::next(last);
    }
  }
  if (parts.size() <= kMaxHosts) return base::join(parts, ",");
  return fmt::format("{} and others", base::join(std::span(parts).first(kMaxHosts), ","));
}

// Puts as many parts on a line as fit, with " > " between them.
std::string call_lines(std::span<const std::string> calls, const std::string& indent, std::string_view end) {
  std::string text;
  std::string line = indent;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const bool is_last = i + 1 == calls.size();
    const std::string part = calls[i] + (is_last ? std::string(end) : " > ");
    if (line.size() > indent.size() && line.size() + part.size() > kColumns) {
      text += std::string(line, 0, line.find_last_not_of(' ') + 1) + "\n";
      line = indent + "  ";
    }
    line += part;
  }
  return text + line + "\n";
}

std::string format_states(const StackClass& stacks) {
  std::vector<std::pair<int, std::string>> states;
  for (const auto& [state, count] : stacks.states) states.emplace_back(-count, state);
  std::ranges::sort(states);
  if (states.size() == 1) return states.front().second;
  std::vector<std::string> parts;
  for (const auto& [count, state] : states) {
    if (parts.size() == kMaxStates) {
      parts.push_back("…");
      break;
    }
    parts.push_back(fmt::format("{} {}", -count, state));
  }
  return base::join(parts, ", ");
}

// How often threads were looked at.
struct Looks {
  int count = 1;
  int total = 0;  // threads over all looks
};

// Such as "ranks 0-36,38-63 on n1-n8: 63 ranks".
std::string class_title(const StackClass& stacks, const Looks& looks) {
  const std::size_t ranks = stacks.ranks.size();
  std::string title = fmt::format("{} on {}", format_rank_set(stacks.ranks), host_ranges(stacks.hosts));
  if (ranks == 1) title += fmt::format(", pid {}", stacks.pid);
  if (!stacks.command.empty()) title += fmt::format(", process {}", stacks.command);
  if (!stacks.is_main_thread) title += fmt::format(", thread {}", stacks.thread_name);
  if (ranks > 1) title += fmt::format(": {} ranks", ranks);
  if (looks.count > 1 || static_cast<std::size_t>(stacks.threads) != ranks) {
    title += ", " + format_threads(stacks.threads, looks.total, looks.count);
  }
  return title + "\n";
}

std::string format_class(const StackClass& stacks, const Looks& looks) {
  const std::string here = fmt::format("  <- here, {}", format_states(stacks));
  std::string text = class_title(stacks, looks);
  if (!stacks.python.empty()) text += call_lines(stacks.python, "    ", here);
  if (!stacks.native.empty()) {
    text +=
        call_lines(stacks.native, stacks.python.empty() ? "    " : "    native: ", stacks.python.empty() ? here : "");
  }
  if (stacks.python.empty() && stacks.native.empty()) text += fmt::format("    {}\n", format_states(stacks));
  if (!stacks.kernel.empty()) {
    std::vector<std::string> kernel(stacks.kernel.rbegin(), stacks.kernel.rend());
    text += call_lines(kernel, "    kernel: ", "");
  }
  if (!stacks.problem.empty()) text += fmt::format("    ({})\n", stacks.problem);
  return text;
}

std::string remarks(const StackClasses& all) {
  if (all.hidden_threads == 0) return "";
  return fmt::format("{} {} no Python code; --native shows {}\n", all.hidden_threads,
                     all.hidden_threads == 1 ? "other thread runs" : "other threads run",
                     all.hidden_threads == 1 ? "it" : "them");
}

std::string problem_lines(const StackClasses& all) {
  std::string text;
  for (const std::string& problem : all.problems) text += problem + "\n";
  return text;
}

std::string tree_lines(const std::string& call, const CallNode& node, const std::string& indent, const Looks& looks);

// Calls of few ranks come first.
std::string tree_lines_below(const CallNode& node, const std::string& indent, const Looks& looks) {
  std::vector<std::pair<std::size_t, std::string>> order;
  for (const auto& [call, child] : node.children) order.emplace_back(child.ranks.size(), call);
  std::ranges::sort(order);
  std::string text;
  for (const auto& [size, call] : order) text += tree_lines(call, node.children.at(call), indent, looks);
  return text;
}

std::string tree_lines(const std::string& call, const CallNode& node, const std::string& indent, const Looks& looks) {
  std::vector<std::string> calls = {call};
  const CallNode* last = &node;
  const auto goes_on = [&] {
    if (last->children.size() != 1 || !last->ends.empty()) return false;
    const CallNode& next = last->children.begin()->second;
    return next.ranks == last->ranks && (looks.count == 1 || next.threads == last->threads);
  };
  while (goes_on()) {
    calls.push_back(last->children.begin()->first);
    last = &last->children.begin()->second;
  }
  std::string end;
  if (!last->ends.empty()) {
    end = last->ends == last->ranks && last->children.empty()
              ? "  <- here"
              : fmt::format("  <- here: {}", format_rank_set(last->ends));
    if (!last->inexact.empty()) end += fmt::format(" (inexact: {})", format_rank_set(last->inexact));
  }
  std::string text = fmt::format("{}{}: {} {}", indent, format_rank_set(node.ranks), node.ranks.size(),
                                 node.ranks.size() == 1 ? "rank" : "ranks");
  if (looks.count > 1) text += ", " + format_threads(node.threads, looks.total, looks.count);
  text += '\n';
  text += call_lines(calls, indent + "    ", end);
  return text + tree_lines_below(*last, indent + "  ", looks);
}

}  // namespace

std::string format_stack_classes(const std::vector<v1::ProcessStack>& processes) {
  return format_stack_classes(classify_stacks(processes));
}

std::string format_stack_classes(const StackClasses& all) {
  Looks looks{.count = all.looks};
  for (const StackClass& stacks : all.classes) looks.total += stacks.threads;
  std::string text = problem_lines(all);
  for (std::size_t i = 0; i < std::min(all.classes.size(), kMaxClasses); ++i) {
    text += format_class(all.classes[i], looks);
  }
  if (all.classes.size() > kMaxClasses) {
    text +=
        fmt::format("{} other stacks are left out: --tree or --json shows them\n", all.classes.size() - kMaxClasses);
  }
  return text + remarks(all);
}

std::string format_stack_tree(const std::vector<v1::ProcessStack>& processes) {
  return format_stack_tree(classify_stacks(processes));
}

std::string format_stack_tree(const StackClasses& all) {
  const CallNode root = call_tree(all.classes);
  std::string text = problem_lines(all) + tree_lines_below(root, "", {all.looks, root.threads});
  for (const std::string& problem : stack_problems(all.classes)) text += fmt::format("({})\n", problem);
  return text + remarks(all);
}

bool are_stacks_read(const std::vector<v1::ProcessStack>& processes) {
  const auto is_thread_read = [](const v1::ThreadStack& thread) {
    return (thread.python_problem().empty() || !thread.python().empty()) &&
           (thread.problem().empty() || !thread.user().empty());
  };
  return std::ranges::all_of(processes, [&](const v1::ProcessStack& process) {
    return process.problem().empty() && std::ranges::all_of(process.threads(), is_thread_read);
  });
}

std::string process_stack_json(const v1::ProcessStack& process) {
  return proto::message_line(process);
}

}  // namespace muster::cli::view
