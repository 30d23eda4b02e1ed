#include "cli/help.h"

#include <array>

#include <fmt/format.h>

#include "base/strings.h"
#include "cli/flags.h"

namespace muster::cli {
namespace {

constexpr std::size_t kColumns = 96;
constexpr std::size_t kHelpColumn = 34;

constexpr std::string_view kHead = R"(Usage: hvdrun [options] command [arguments of the command]

Runs a distributed program: one process (rank) for each slot, on this machine or on many hosts
over ssh. Nothing has to be installed on the hosts, and nothing is left running there afterwards.
)";

constexpr std::string_view kTail = R"(
TIME is a number and a unit: 30, 30s, 5m, 1.5h, 500ms. Options end at the first word that is not
one of them, or at --; from there on everything is the command, unchanged.

Examples:
  hvdrun -np 4 ./my_program
  hvdrun -np 16 -H n1:4,n2:4,n3:4,n4:4 python3 train.py
  hvdrun -N 4 -H 'gpu[01-16]' python3 train.py --epochs 3
  hvdrun -np 8 --hostfile hosts -p 2222 -i key --output-filename logs python3 train.py
  hvdrun -np 8 -H n1:4,n2:4 -x NCCL_DEBUG=INFO --timeout 2h -- python3 train.py

Exit code: 0 when all ranks ended with 0; the code, or 128 + the signal, of the rank that failed
first; 2 for a wrong command line; 124 for --timeout; 125 when a host did not start or was lost.
)";

struct GroupTitle {
  FlagGroup group;
  std::string_view title;
};
constexpr std::array<GroupTitle, 9> kGroups = {{{FlagGroup::kRanks, "Ranks"},
                                                {FlagGroup::kHosts, "Hosts"},
                                                {FlagGroup::kSsh, "Reaching the hosts"},
                                                {FlagGroup::kProgram, "The program"},
                                                {FlagGroup::kOutput, "Output"},
                                                {FlagGroup::kLife, "Start, end and failure"},
                                                {FlagGroup::kTuning, "Tuning Horovod"},
                                                {FlagGroup::kElastic, "Elastic jobs (come later)"},
                                                {FlagGroup::kGeneral, "General"}}};

std::string spelling_of(const Flag& flag) {
  std::string text;
  bool takes_value = false;
  for (const Spelling& spelling : flag.spellings) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", spelling.text);
    takes_value = takes_value || spelling.value.empty();
  }
  return takes_value ? fmt::format("{} {}", text, flag.value_name) : text;
}

// `text` by words up to kColumns. It begins at column `begin`, its further lines at `indent`.
std::string wrapped(std::string_view text, std::size_t begin, std::size_t indent) {
  std::string result;
  std::size_t column = begin;
  for (const std::string_view word : base::split(text, ' ')) {
    if (!result.empty() && column + 1 + word.size() > kColumns) {
      result += fmt::format("\n{:{}}", "", indent);
      column = indent;
    } else if (!result.empty()) {
      result += ' ';
      ++column;
    }
    result += word;
    column += word.size();
  }
  return result;
}

std::string entry(const Flag& flag) {
  const std::string head = "  " + wrapped(spelling_of(flag), 2, 6);
  std::string help(flag.help);
  if (!flag.standard.empty()) help.insert(help.size() - 1, fmt::format(" (default {})", flag.standard));
  const std::string text = wrapped(help, kHelpColumn, kHelpColumn);
  const bool fits = head.size() + 2 <= kHelpColumn;
  return fits ? fmt::format("{:<{}}{}\n", head, kHelpColumn, text)
              : fmt::format("{}\n{:{}}{}\n", head, "", kHelpColumn, text);
}

}  // namespace

std::string hvdrun_help() {
  std::string text(kHead);
  for (const GroupTitle& group : kGroups) {
    text += fmt::format("\n{}:\n", group.title);
    for (const Flag& flag : hvdrun_flags().flags()) {
      if (flag.group == group.group) text += entry(flag);
    }
  }
  return text.append(kTail);
}

std::string hvdrun_version(std::string_view build_id) {
  return fmt::format("hvdrun {} ({}), horovodrun 0.28.1 flags\n", MUSTER_VERSION, build_id);
}

}  // namespace muster::cli
