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
constexpr std::array<GroupTitle, 7> kGroups = {{{FlagGroup::kRanks, "Ranks"},
                                                {FlagGroup::kHosts, "Hosts"},
                                                {FlagGroup::kSsh, "Reaching the hosts"},
                                                {FlagGroup::kProgram, "The program"},
                                                {FlagGroup::kOutput, "Output"},
                                                {FlagGroup::kLife, "Start, end and failure"},
                                                {FlagGroup::kGeneral, "General"}}};

std::string spelling_of(const Flag& flag) {
  std::string text;
  for (const std::string_view spelling : flag.spellings)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", spelling);
  return flag.values == 0 ? text : fmt::format("{} {}", text, flag.value_name);
}

// `text` by words from kHelpColumn to kColumns; the first line continues what stands before it.
std::string wrapped(std::string_view text) {
  std::string result;
  std::size_t column = kHelpColumn;
  for (const std::string_view word : base::split(text, ' ')) {
    if (column > kHelpColumn && column + 1 + word.size() > kColumns) {
      result += fmt::format("\n{:{}}", "", kHelpColumn);
      column = kHelpColumn;
    }
    if (column > kHelpColumn) {
      result += ' ';
      ++column;
    }
    result += word;
    column += word.size();
  }
  return result;
}

std::string entry(const Flag& flag) {
  const std::string head = "  " + spelling_of(flag);
  const bool fits = head.size() + 2 <= kHelpColumn;
  return fits ? fmt::format("{:<{}}{}\n", head, kHelpColumn, wrapped(flag.help))
              : fmt::format("{}\n{:{}}{}\n", head, "", kHelpColumn, wrapped(flag.help));
}

}  // namespace

std::string hvdrun_help() {
  std::string text(kHead);
  for (const GroupTitle& group : kGroups) {
    text += fmt::format("\n{}:\n", group.title);
    for (const Flag& flag : all_flags()) {
      if (flag.is_active && flag.group == group.group) text += entry(flag);
    }
  }
  return text.append(kTail);
}

std::string hvdrun_version(std::string_view build_id) {
  return fmt::format("hvdrun {} ({}), horovodrun 0.28.1 flags\n", MUSTER_VERSION, build_id);
}

}  // namespace muster::cli
