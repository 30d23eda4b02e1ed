#include "cli/view/stack_view.h"

#include <fmt/format.h>

#include "base/strings.h"
#include "proto/message_json.h"

namespace muster::cli::inline view {
namespace {

std::string state_text(const v1::ThreadStack& thread) {
  const std::string& state = thread.state();
  const std::string_view word = state == "R"   ? "running"
                                : state == "S" ? "sleeping"
                                : state == "D" ? "not to be interrupted"
                                : state == "T" ? "stopped"
                                : state == "t" ? "being traced"
                                : state == "I" ? "idle"
                                               : "in another state";
  if (thread.wait_channel().empty()) return std::string(word);
  return fmt::format("{} in {}", word, base::printable(thread.wait_channel()));
}

std::string thread_title(const v1::ThreadStack& thread) {
  const std::string name = base::printable(thread.name());
  if (thread.tids_size() == 1) return fmt::format("thread {} ({})", thread.tids(0), name);
  std::string tids;
  for (const std::int64_t tid : thread.tids()) tids += fmt::format("{}{}", tids.empty() ? "" : ", ", tid);
  return fmt::format("{} threads ({}): {}", thread.tids_size(), name, tids);
}

std::string frame_line(int index, const v1::StackFrame& frame) {
  const std::string module = frame.module().substr(frame.module().rfind('/') + 1);
  const std::string function =
      frame.function().empty() ? fmt::format("{:#x}", frame.address()) : base::printable(frame.function());
  return fmt::format("      #{:<3} {}{}\n", index, function,
                     module.empty() ? "" : fmt::format("  [{}]", base::printable(module)));
}

}  // namespace

std::string format_process_stack(const v1::ProcessStack& process) {
  if (process.pid() == 0) return base::printable(process.problem()) + "\n";
  std::string text = fmt::format("rank {} on {}: pid {} ({})\n", process.rank(), base::printable(process.host()),
                                 process.pid(), base::printable(process.command()));
  if (!process.problem().empty()) text += fmt::format("  {}\n", base::printable(process.problem()));
  for (const v1::ThreadStack& thread : process.threads()) {
    text += fmt::format("  {}: {}\n", thread_title(thread), state_text(thread));
    for (const std::string& frame : thread.kernel()) text += fmt::format("      kernel {}\n", base::printable(frame));
    int index = 0;
    for (const v1::StackFrame& frame : thread.user()) text += frame_line(index++, frame);
    if (!thread.problem().empty()) text += fmt::format("      ({})\n", base::printable(thread.problem()));
  }
  return text;
}

std::string process_stack_json(const v1::ProcessStack& process) {
  return proto::message_line(process);
}

}  // namespace muster::cli::view
